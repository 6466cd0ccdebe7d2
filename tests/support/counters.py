"""Counters of the kernel, read before and after a trial."""

from matrix_runner.records.record import Reading

BEFORE = """\
counted before 1000.5
 253       0 vda 10 0 80 5 20 0 160 7 0 11 12 0 0 0 0 0 0
   9     127 md127 1 2 3 4 5 6 7 8 9 10 11
cpu  100 0 50 1000 10 0 5 0 0 0
cpu0 100 0 50 1000 10 0 5 0 0 0
intr 5000 1 2 3
ctxt 70
MemTotal:        2000000 kB
MemAvailable:    1500000 kB
Dirty:                 0 kB
Writeback:             0 kB
HugePages_Total:       0
counted
"""


AFTER = """\
counted after 1004.0
 253       0 vda 110 0 280 105 24 0 192 9 0 1011 2012 0 0 0 0 0 0
   9     127 md127 1 2 3 4 5 6 7 8 9 10 11
cpu  110 0 80 1040 20 0 5 0 0 0
cpu0 110 0 80 1040 20 0 5 0 0 0
intr 5600 1 2 3
ctxt 100
MemTotal:        2000000 kB
MemAvailable:    1400000 kB
Dirty:             81920 kB
Writeback:          1024 kB
HugePages_Total:       0
counted
"""


READINGS = (
    Reading("disk0.node", None, "vda"),
    Reading("md.node", None, "md127"),
    Reading("disk1.node", None, "gone"),
    Reading("md.level", "raid0", "raid0"),
)
