"""Physical disks: inventory, checks, leases, wear ledger and recovery."""

from pathlib import Path

#: The file that declares physical disks, unless another one is named.
HOSTS_FILE = Path("hosts.yaml")
SECTOR = 512
