"""The kernel options that the appliance needs, and a check of an image against them."""

import re
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from matrix_runner.base.errors import BadInput, HarnessBroken
from matrix_runner.base.files import IMAGE, MIB, read_input
from matrix_runner.machines.qemu import build, recipe

#: `boot`: must be built in. `module`: must be built in or a module. `work`: some work needs it.
Need = Literal["boot", "module", "work"]


@dataclass(frozen=True, slots=True)
class Option:
    name: str
    need: Need
    use: str

    @property
    def text(self) -> str:
        return f"CONFIG_{self.name}"

    @property
    def boots(self) -> bool:
        return self.need != "work"


def _options(need: Need, *rows: tuple[str, str]) -> tuple[Option, ...]:
    return tuple(Option(name, need, use) for name, use in rows)


OPTIONS = (
    *_options(
        "boot",
        ("64BIT", "the appliance's programs are 64-bit"),
        ("SMP", "more than one processor"),
        ("X86_MPPARSE", "processors and interrupts without ACPI"),
        ("PCI", "all devices of the machine"),
        ("BLK_DEV_INITRD", "the initramfs that finds the root file system"),
        ("BINFMT_ELF", "programs"),
        ("BINFMT_SCRIPT", "the first program is a script"),
        ("PROC_FS", "`/proc`"),
        ("SYSFS", "`/sys`: settings are written and read back there"),
        ("TMPFS", "writes to the root file system"),
        ("DEVTMPFS", "device nodes"),
        ("SERIAL_8250_CONSOLE", "the console, where a panic is read"),
        ("SQUASHFS_ZLIB", "the root file system: its images name zlib"),
    ),
    *_options(
        "module",
        ("VIRTIO_PCI", "disks and channels of the machine"),
        ("VIRTIO_BLK", "the root file system, and disks with `bus: virtio`"),
        ("VIRTIO_CONSOLE", "the channels of scripts"),
        ("SQUASHFS", "the root file system"),
        ("OVERLAY_FS", "writes to the root file system"),
    ),
    *_options(
        "work",
        ("AIO", "`ioengine: libaio`, the default"),
        ("IO_URING", "`ioengine: io_uring`"),
        ("SCSI_VIRTIO", "`bus: scsi`"),
        ("SATA_AHCI", "`bus: sata`"),
        ("BLK_DEV_SD", "`bus: scsi` and `bus: sata`"),
        ("BLK_DEV_NVME", "`bus: nvme`"),
        ("MQ_IOSCHED_DEADLINE", "`scheduler: mq-deadline`"),
        ("IOSCHED_BFQ", "`scheduler: bfq`"),
        ("MQ_IOSCHED_KYBER", "`scheduler: kyber`"),
        ("EFI_PARTITION", "`partition`"),
        ("BLK_DEV_MD", "`md`"),
        ("MD_LINEAR", "`md`, level linear"),
        ("MD_LLBITMAP", "`md` with `bitmap: lockless`"),
        ("MD_RAID0", "`md`, level 0"),
        ("MD_RAID1", "`md`, level 1; `lvm` of type raid1"),
        ("MD_RAID10", "`md`, level 10; `lvm` of type raid10"),
        ("MD_RAID456", "`md`, levels 4, 5 and 6; `lvm` of types raid4, raid5 and raid6"),
        ("BLK_DEV_DM", "`lvm`, `crypt`, `integrity`"),
        ("DM_RAID", "`lvm` of the raid types"),
        ("DM_MIRROR", "`lvm` of type mirror"),
        ("DM_THIN_PROVISIONING", "`lvm` of type thin"),
        ("DM_CACHE", "`lvm` of type cache"),
        ("DM_CACHE_SMQ", "`lvm` of type cache"),
        ("DM_WRITECACHE", "`writecache`"),
        ("BCACHE", "`bcache`"),
        ("BLK_DEV_NULL_BLK", "`memory`"),
        ("CONFIGFS_FS", "`memory`"),
        ("DM_CRYPT", "`crypt`"),
        ("CRYPTO_XTS", "`crypt` with an xts cipher, the default"),
        ("CRYPTO_AES", "`crypt` with aes, the default"),
        ("DM_INTEGRITY", "`integrity`"),
        ("CRYPTO_CRC32C", "`integrity` with crc32c, the default"),
        ("EXT4_FS", "`fs` of type ext2, ext3 or ext4"),
        ("XFS_FS", "`fs` of type xfs"),
        ("BTRFS_FS", "`fs` of type btrfs"),
        ("F2FS_FS", "`fs` of type f2fs"),
    ),
)
#: Menus above `OPTIONS`, and what programs, clocks and settings need. `make` leaves out what a kernel does not know.
_SUPPORT = (
    *("BLOCK", "BLK_DEV", "PCI_MSI", "VIRTIO_MENU", "ATA", "SCSI", "SCSI_LOWLEVEL", "MD", "MISC_FILESYSTEMS", "CRYPTO"),
    *("UNIX", "TTY", "SERIAL_8250", "PRINTK", "BUG", "MULTIUSER", "SYSVIPC", "FUTEX", "EPOLL", "SIGNALFD", "TIMERFD"),
    *("EVENTFD", "SHMEM", "ADVISE_SYSCALLS", "FILE_LOCKING", "INOTIFY_USER", "POSIX_TIMERS", "PROC_SYSCTL", "ACPI"),
    *("HIGH_RES_TIMERS", "NO_HZ_IDLE", "HYPERVISOR_GUEST", "PARAVIRT", "KVM_GUEST", "PVH", "BLK_WBT", "BLK_WBT_MQ"),
    *("NET", "PARTITION_ADVANCED", "EXT4_USE_FOR_EXT2", "IKCONFIG", "IKCONFIG_PROC"),
)
_IKCONFIG = (b"IKCFG_ST", b"IKCFG_ED")
_LINE = re.compile(r"^CONFIG_(\w+)=(\S.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Lack:
    option: Option
    why: str
    is_module: bool = False

    @property
    def message(self) -> str:
        return f"{self.option.text} {self.why}: {self.option.use}"


@dataclass(frozen=True, slots=True)
class Kernel:
    image: Path
    release: str
    modules: bool
    source: str = ""
    config: str = ""


def parse(config: str) -> dict[str, str]:
    return dict(_LINE.findall(config))


def smallest_config() -> str:
    """Return the options of a kernel that needs no modules, for `make KCONFIG_ALLCONFIG=FILE allnoconfig`."""
    needed = "".join(f"CONFIG_{name}=y\n" for name in _SUPPORT)
    return needed + "".join(f"# {one.need} - {one.use.replace('`', '')}\n{one.text}=y\n" for one in OPTIONS)


def lacks(config: str, *, modules: bool) -> Iterator[Lack]:
    """Compare a .config with `OPTIONS`. `modules`: the kernel's modules are beside its image."""
    found = parse(config)
    for option in OPTIONS:
        value = found.get(option.name, "n")
        if value == "y":
            continue
        if value != "m":
            yield Lack(option, "is not set")
        elif option.need == "boot":
            yield Lack(option, "is a module and must be built in", is_module=True)
        elif not modules:
            yield Lack(option, "is a module that cannot be loaded", is_module=True)


def inspect(image: Path) -> Kernel:
    try:
        content = read_input(image, IMAGE)
    except OSError as error:
        raise BadInput(f"{image} cannot be read: {error.strerror or error}") from None
    release = recipe.kernel_release(content)
    if release is None:
        raise BadInput(
            f"{image} is no kernel image", resolution="name the arch/x86/boot/bzImage of a kernel build, or a vmlinuz"
        )
    modules = (image.parent / "lib" / "modules" / release / "modules.dep").is_file()
    if config := embedded_config(content):
        return Kernel(image, release, modules, "the image itself (IKCONFIG)", config)
    for path in config_paths(image, release):
        with suppress(OSError):
            config = read_input(path).decode("utf-8", "replace")
            if parse(config):
                return Kernel(image, release, modules, str(path), config)
    return Kernel(image, release, modules)


def config_paths(image: Path, release: str) -> Iterator[Path]:
    folder = image.absolute().parent
    yield folder / f"config-{release}"
    yield folder / "lib" / "modules" / release / "config"
    if folder.parts[-3:] == ("arch", "x86", "boot"):
        yield folder.parents[2] / ".config"
    yield folder / ".config"
    yield Path("/boot") / f"config-{release}"
    yield Path("/lib/modules") / release / "config"


def embedded_config(image: bytes) -> str:
    """Return the configuration that CONFIG_IKCONFIG puts into a kernel; empty if it cannot be read."""
    return _marked(image) or _marked(_unpacked(image))


def _marked(kernel: bytes) -> str:
    start, end = (kernel.find(mark) for mark in _IKCONFIG)
    with suppress(zlib.error):
        if 0 <= start < end:
            return (
                zlib.decompressobj(31)
                .decompress(kernel[start + len(_IKCONFIG[0]) : end], MIB)
                .decode("utf-8", "replace")
            )
    return ""


def _unpacked(image: bytes) -> bytes:
    with tempfile.TemporaryDirectory(prefix="matrix-kernel-") as folder:
        packed = Path(folder) / "packed"
        packed.write_bytes(recipe.kernel_payload(image))
        with suppress(HarnessBroken, OSError), build.open_unpacked(packed) as stream:
            return stream.read()
    return b""
