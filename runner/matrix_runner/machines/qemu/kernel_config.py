"""The kernel options that the appliance needs, and a check of an image against them."""

import re
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from matrix_runner.base.errors import BadInput, HarnessBroken
from matrix_runner.base.files import IMAGE, MIB, read_input
from matrix_runner.machines.qemu import build, recipe


@dataclass(frozen=True, slots=True)
class Option:
    need: str  # `boot`: built in. `module`: built in or a module. `work`: some work needs it
    name: str
    use: str

    @property
    def text(self) -> str:
        return f"CONFIG_{self.name}"

    @property
    def boots(self) -> bool:
        return self.need != "work"


_FILE = Path(__file__).with_name("kernel-options.tsv").read_text(encoding="utf-8")
OPTIONS = tuple(Option(*line.split("\t")) for line in _FILE.splitlines())
#: Menus above `OPTIONS`, and what programs, clocks and settings need. `make` leaves out what a kernel does not know.
_SUPPORT = (
    *("BLOCK", "BLK_DEV", "PCI_MSI", "VIRTIO_MENU", "ATA", "SCSI", "SCSI_LOWLEVEL", "MD", "MISC_FILESYSTEMS", "CRYPTO"),
    *("UNIX", "TTY", "SERIAL_8250", "PRINTK", "BUG", "MULTIUSER", "SYSVIPC", "FUTEX", "EPOLL", "SIGNALFD", "TIMERFD"),
    *("EVENTFD", "SHMEM", "ADVISE_SYSCALLS", "FILE_LOCKING", "INOTIFY_USER", "POSIX_TIMERS", "PROC_SYSCTL", "ACPI"),
    *("HIGH_RES_TIMERS", "NO_HZ_IDLE", "HYPERVISOR_GUEST", "PARAVIRT", "KVM_GUEST", "PVH", "BLK_WBT", "BLK_WBT_MQ"),
    *("NET", "PARTITION_ADVANCED", "EXT4_USE_FOR_EXT2", "IKCONFIG", "IKCONFIG_PROC", "INET", "NVME_TARGET"),
    *("FTRACE", "DEBUG_FS"),
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
