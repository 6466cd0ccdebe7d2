"""Disks that exist: what there is, what of it may be used and why not, and how it is held while it is."""

from pathlib import Path

#: The file that declares physical disks, unless another one is named.
HOSTS_FILE = Path("hosts.yaml")
