"""The disk agent, its client, and the ways to reach it: OpenSSH on other hosts, sudo on this one."""

#: Succeeds where the agent can run.
PYTHON_CHECK = "import sys; sys.exit(sys.version_info < (3, 9))"
