"""A machine to bootstrap: the real script in real bash, and stand-ins for all that would change a real one."""

from __future__ import annotations

import os
import pty
import shutil
import subprocess
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
POLICY = "/usr/sbin/policy-rc.d"
BASH = shutil.which("bash") or "/bin/bash"
END_OF_FILE = "\x04"
REAL = {
    *("cat", "chmod", "env", "find", "flock", "grep", "ls", "mkdir", "mktemp"),
    *("mv", "readlink", "rm", "sed", "sha256sum", "tail", "tee", "uname", "wc"),
}

# Each notes how it was called in $PLACE/calls. A file $PLACE/<name>-does is sourced once, and then gone.
STAND_IN = f"""#!{BASH}
note() {{ printf '%s\\n' "$*" >>"$PLACE/calls"; }}
whim() {{ if [[ -e $PLACE/$1-does ]]; then mv "$PLACE/$1-does" "$PLACE/$1-did"; . "$PLACE/$1-did"; fi; }}
"""
PROGRAMS = {
    "id": 'cat "$PLACE/uid"',
    "sleep": 'note "sleep $*"',
    "sudo": 'note "sudo $*"; whim sudo; while [[ $1 == -* ]]; do shift; done; exec "$@"',
    "dpkg-query": 'while read -r name; do echo "ii  $name"; done <"$PLACE/installed"; exit 1',
    "dpkg": 'note "dpkg $*"',
    "apt-get": """note "apt-get $* ($DEBIAN_FRONTEND)"
case " $* " in
  *' install '*) whim install; for word; do [[ $word == [-=]* ]] || echo "$word" >>"$PLACE/installed"; done ;;
  *) whim update ;;
esac""",
    # It knows the units of $PLACE/units.
    "systemctl": """note "systemctl $*"
case "$1 $(<"$PLACE/units")" in is-enabled*" $2 "*) echo enabled ;; is-enabled*) echo not-found; exit 4 ;; esac""",
    "true": "exit 0",
    "python3": """case "$1 ${2-}" in
  '-V ') echo "Python $(<"$PLACE/version")" ;;
  '-c '*) [[ $(<"$PLACE/version") == 3.1[1-9]* ]] ;;
  '-m venv')
    note "venv ${@: -1}"; whim venv
    cd -- "${@: -1}"; mkdir -p bin lib/python3.11/site-packages; cat "$0" >bin/python; chmod +x bin/python ;;
  '-m pip')
    case " $* " in
      *' --editable '*)
        note "editable ${@:3}"; whim editable
        printf '%s\\n' '#!/bin/sh' 'exec "${0%/*}/python" -P -c main "$@"' >"${0%/*}/matrix"; chmod +x "${0%/*}/matrix" ;;
      *) note "pip ${@:3}"; echo "pip was here"; whim pip ;;
    esac ;;
  '-m '*) note "${@:2}"; whim "$2" ;;
  '-P -c') note "matrix ${@:4}"; shift 3; printf '<%s>' "$@"; whim matrix ;;
esac""",
}


class Place:
    """One such machine, and a checkout on it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.checkout = folder / "a check out"
        self.venv = self.checkout / ".venv"
        self.bin = folder / "bin"
        for made in (self.checkout, self.bin, folder / "home", folder / "tmp"):
            made.mkdir()
        #: What packages ask before they start a service, on this machine.
        self.policy = folder / "policy-rc.d"
        script = (REPOSITORY / "bootstrap").read_text()
        assert script.count(POLICY) == 1
        script = script.replace(POLICY, f"'{self.policy}'").replace("/etc/os-release", '"$PLACE/os-release"')
        self.write("a check out/bootstrap", script)
        self.write("a check out/pyproject.toml", "[project]\n")
        self.write("a check out/requirements.lock", "click==8\n")
        self.write("a check out/requirements-dev.lock", "click==8\npytest==9\n")
        for name in REAL:
            (self.bin / name).symlink_to(shutil.which(name) or name)
        for name, body in PROGRAMS.items():
            self.program(name, body)
        for name, text in {
            "uid": "0",
            "version": "3.11.2",
            "installed": "",
            "units": "",
            "calls": "",
            "os-release": "",
        }.items():
            self.write(name, text)
        self.env = {
            "PATH": str(self.bin),
            "PLACE": str(folder),
            "HOME": str(folder / "home"),
            "TMPDIR": str(folder / "tmp"),
            "PYTHON": str(self.bin / "python3"),
            "LANG": "C.UTF-8",
        }

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(text)
        return path

    def program(self, name: str, body: str) -> None:
        path = self.bin / name
        path.write_text(f"{STAND_IN}{body}\n")
        path.chmod(0o755)

    def lacks(self, program: str) -> None:
        (self.bin / program).unlink()

    def once(self, program: str, does: str) -> None:
        """Have a stand-in do something out of the ordinary the next time it is called."""
        self.write(f"{program}-does", f"{does}\n")

    def argv(self, *words: str) -> list[str]:
        return [BASH, str(self.checkout / "bootstrap"), *words]

    def bootstrap(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.argv(*words), env=self.env, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60
        )

    def at_a_terminal(self, answer: str, *words: str, typing: bool = True) -> tuple[int, str]:
        """The exit status and everything shown, to somebody who types an answer and leaves, or who cannot type."""
        ours, theirs = pty.openpty()
        os.write(ours, f"{answer}{END_OF_FILE}".encode())
        typed = theirs if typing else subprocess.DEVNULL
        with subprocess.Popen(self.argv(*words), env=self.env, stdin=typed, stdout=theirs, stderr=theirs) as process:
            os.close(theirs)
            shown = b"".join(iter(lambda: _read(ours), b""))
        os.close(ours)
        return process.returncode, shown.decode()

    def calls(self) -> list[str]:
        """What was called since this was last asked."""
        calls = (self.folder / "calls").read_text().splitlines()
        self.write("calls", "")
        return calls

    def logs(self) -> list[Path]:
        return list((self.folder / "tmp").iterdir())


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 4096)
    except OSError:  # the last one at the other end has left
        return b""
