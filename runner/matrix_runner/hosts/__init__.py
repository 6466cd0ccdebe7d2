"""Physical disks: inventory, checks, leases, wear ledger and recovery."""

from pathlib import Path

#: The file that declares physical disks, unless another one is named.
HOSTS_FILE = Path("hosts.yaml")
SECTOR = 512

LABEL_MAGIC = "matrix-disk"
LABEL_BYTES = 4096
#: In blocks of LABEL_BYTES, from the start: 768 KiB.
LABEL_BLOCK = 192
