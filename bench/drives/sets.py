"""The drives with published results: where these are, on what host, and what is known of the drive without a fit."""

from __future__ import annotations

from dataclasses import dataclass

from matrix_runner.simdisks.loop import DIRECTIONS, Direction

FIO_PLOT, SAM = "louwrentius/fio-plot", "SamYaple/fio-plot-results"
#: Commands that Linux has under way at a disk: of SATA, of an NVMe queue, and of USB storage.
SATA, NVME, USB = 31, 1023, 1
GB = 10**9


@dataclass(frozen=True, slots=True)
class Source:
    repository: str
    commit: str
    folder: str

    @property
    def host(self) -> str:
        """Return the part of its folder that tells it from the others."""
        return self.folder.removeprefix("benchmark_data/").removeprefix("benchmarks/")


def _of(commit: str, *folders: str) -> tuple[Source, ...]:
    return tuple(Source(FIO_PLOT, commit, f"benchmark_data/{folder}") for folder in folders)


@dataclass(frozen=True, slots=True)
class Drive:
    #: Of its model.
    name: str
    title: str
    #: Bytes.
    size: int
    #: Keys that are not fitted, and where they are from.
    keys: dict[str, object]
    keys_from: str
    #: Half of their jobs are fitted.
    own: tuple[Source, ...]
    #: The same drive on other hosts, or other specimens: only compared.
    others: tuple[Source, ...] = ()
    #: Commands that the host has under way.
    queue: int = SATA
    #: How many such disks share the requests.
    disks: int = 1
    #: Bytes of a disk that the jobs used; None: all.
    span: int | None = None
    #: Directions whose jobs this drive alone explains.
    directions: tuple[Direction, ...] = DIRECTIONS

    @property
    def sources(self) -> tuple[Source, ...]:
        return (*self.own, *self.others)


def _ssd(bandwidth: str, write_bandwidth: str, interface: str = "560MB/s", **more: object) -> dict[str, object]:
    return {
        "kind": "ssd",
        "bandwidth": bandwidth,
        "write_bandwidth": write_bandwidth,
        "interface": interface,
        **more,
    }


_BANDWIDTHS = "bandwidths are from the data sheet"
_ZONES = "rates of the zones and the cache are typical of its class"
DRIVES = (
    Drive(
        "samsung-f1-1tb",
        "Samsung SpinPoint F1, 1 TB, behind the Marvell controller of a MicroServer Gen10",
        1000 * GB,
        {"kind": "hdd", "rpm": 7200, "outer": "110MB/s", "inner": "55MB/s", "cache": "32MiB", "interface": "300MB/s"},
        _ZONES,
        _of("4445a8974", "HPMICROSERVERG10/SATA_AHCI_SAMSUNGF1_1TB_7K2RPM"),
    ),
    Drive(
        "wd740gd",
        "WD Raptor WD740GD, 74 GB, behind the Marvell controller of a MicroServer Gen10",
        74 * GB,
        {"kind": "hdd", "rpm": 10_000, "outer": "72MB/s", "inner": "54MB/s", "cache": "8MiB", "interface": "150MB/s"},
        _ZONES,
        _of(
            "4445a8974",
            "HPMICROSERVERG10/SATA_AHCI_WD740GD_74GB_10RPM/RUN1",
            "HPMICROSERVERG10/SATA_AHCI_WD740GD_74GB_10RPM/RUN2",
        ),
    ),
    Drive(
        "raid5-2tb",
        "a disk of 2 TB, one of eight in an md RAID 5 behind an IBM M1015; the source does not name it. Its reads are "
        "those of a file of 100 GB, so seeks are short",
        2000 * GB,
        {"kind": "hdd", "rpm": 5400, "outer": "150MB/s", "inner": "75MB/s", "cache": "64MiB", "interface": "300MB/s"},
        "5400 rpm are an assumption; a full seek, and rates of the zones, are typical",
        _of("c8c3479a4", "SERVER/IBM_M1015/8x2TBRAID5MDADM"),
        disks=8,
        span=100 * GB // 7,
        directions=("read",),
    ),
    Drive(
        "samsung-860-pro",
        "Samsung 860 PRO, at SATA with 3 Gbit/s of a MicroServer Gen8",
        512 * GB,
        _ssd("560MB/s", "530MB/s", "300MB/s"),
        _BANDWIDTHS,
        _of("e5a222ad5", "HPMICROSERVERG8/SATA300/SAMSUNG860PRO"),
        (
            *_of("62de2243e", "SERVER/IBM_M1015/SAMSUNG_860_PRO"),
            *_of("970ae22ba", "HPDL380G8/P420HBA/SAMSUNG_860PRO"),
            *_of("16ea3561b", "HPDL380G8/P420i_SAMSUNG_860PRO"),
        ),
    ),
    Drive(
        "samsung-860-pro-m1015",
        "Samsung 860 PRO, behind an IBM M1015",
        512 * GB,
        _ssd("560MB/s", "530MB/s"),
        _BANDWIDTHS,
        _of("62de2243e", "SERVER/IBM_M1015/SAMSUNG_860_PRO"),
    ),
    Drive(
        "samsung-860-pro-uncached",
        "Samsung 860 PRO with its write cache off, behind an HP P420i; only its writes are fitted",
        512 * GB,
        _ssd("560MB/s", "530MB/s", write_cache=False),
        _BANDWIDTHS,
        _of("a5ce98b33", "HPDL380G8/RAID/P420i_SAMSUNG_860PRO/TEST02_DISABLED_WRITE_CACHE"),
        directions=("write",),
    ),
    Drive(
        "samsung-pm883",
        "Samsung PM883, 480 GB, behind an IBM M1015",
        480 * GB,
        _ssd("550MB/s", "520MB/s"),
        _BANDWIDTHS,
        _of("62de2243e", "SERVER/IBM_M1015/SAMSUNG_PM883"),
        (
            *_of("9ead3db62", "HPMICROSERVERG8/SATA300/SAMSUNGPM833"),
            *_of("d2d09a8f3", "HPMICROSERVERG10/SATA_AHCI_SAMSUNG_PM833_MZ7LH480HAHQ"),
            *_of("4445a8974", "HPDL380G8/H420i_SAMSUNG_PM883_MZ7LH480"),
        ),
    ),
    Drive(
        "samsung-pm883-sata2",
        "Samsung PM883, 480 GB, at SATA with 3 Gbit/s of a MicroServer Gen8",
        480 * GB,
        _ssd("550MB/s", "520MB/s", "300MB/s"),
        _BANDWIDTHS,
        _of("9ead3db62", "HPMICROSERVERG8/SATA300/SAMSUNGPM833"),
    ),
    Drive(
        "kingston-dc500m",
        "Kingston DC500M, behind an IBM M1015",
        480 * GB,
        _ssd("555MB/s", "520MB/s"),
        _BANDWIDTHS,
        _of("62de2243e", "SERVER/IBM_M1015/KINGSTONDC500M"),
    ),
    Drive(
        "crucial-mx200",
        "Crucial MX200, behind an HP H420i",
        250 * GB,
        _ssd("555MB/s", "500MB/s"),
        _BANDWIDTHS,
        _of("8f50da685", "HPDL380G8-H420i-Crucial-MX200"),
        _of("c2932bc1c", "HPDL380G8/RAID/NEW/P420i_CRUCIAL_MX200"),
    ),
    Drive(
        "crucial-250",
        "Crucial, 250 GB, at SATA with 3 Gbit/s of a MicroServer Gen8",
        250 * GB,
        _ssd("555MB/s", "500MB/s", "300MB/s"),
        _BANDWIDTHS,
        _of("2046fe5cc", "HPMICROSERVERG8/crucial250-01"),
        _of("2046fe5cc", "HPMICROSERVERG8/crucial250-02"),
    ),
    Drive(
        "crucial-240-usb",
        "Crucial, 240 GB, at USB of a MicroServer Gen10; a file of 30 GB",
        30 * GB,
        _ssd("540MB/s", "490MB/s", "400MB/s"),
        "bandwidths are typical of its class",
        _of("c2932bc1c", "HPMICROSERVERG10/USB_CRUCIAL_240GB"),
        queue=USB,
    ),
    Drive(
        "sabrent-rocket-4-plus",
        "Sabrent Rocket 4 Plus SB-RKT4P-2TB, NVMe with sectors of 4 KiB",
        2000 * GB,
        _ssd("7000MB/s", "6600MB/s", "7000MB/s"),
        _BANDWIDTHS,
        (Source(SAM, "7a6f8e953", "benchmarks/4096_sector/1x/4k"),),
        (
            Source(SAM, "7a6f8e953", "benchmarks/4096_sector/1x/randrw50/4k"),
            Source(SAM, "7a6f8e953", "benchmarks/4096_sector/1x/randrw95/4k"),
        ),
        queue=NVME,
    ),
)
