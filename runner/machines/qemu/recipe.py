"""What the appliance is made of: packages, what of them is kept, and the key under which the result is cached.

Everything here is pure. The default suite is Debian 13: under TCG both suites are ready equally fast within noise
(`python -m bench.boot` shows the boot), so the newer kernel and the newer fio win.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from runner.base.kernels import SUITES

#: Raise when the way of building changes in a manner the other inputs of the key do not show.
BUILDER_VERSION = 1

DEFAULT_KERNEL = "debian-13"
DEFAULT_MIRROR = "http://deb.debian.org/debian"
#: Below this the kernel and the tools leave no room to work.
LEAST_MEMORY = 192 * 2**20
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"

#: The standard kernel, not the cloud one: that has no AHCI, and so no NCQ.
KERNEL_PACKAGE = "linux-image-amd64"
PACKAGES = (
    *("base-files", "bash", "bash-static", "btrfs-progs", "busybox-static", "coreutils", "cryptsetup-bin", "dash"),
    "diffutils",
    *("dmsetup", "dosfstools", "e2fsprogs", "f2fs-tools", "fdisk", "findutils", "fio", "gdisk", "grep", "gzip"),
    *("hdparm", "kmod", "kpartx", "libc-bin"),
    *("lvm2", "mawk", "mdadm", "mount", "ncurses-base", "parted", "perl-base", "procps", "qemu-guest-agent", "sed"),
    *("sysstat", "tar", "thin-provisioning-tools", "util-linux", "xfsprogs"),
)

#: Parts of packages nobody reads inside the appliance.
DROPPED = (
    "boot/",
    "usr/lib/firmware/",
    "usr/lib/python3",
    "usr/lib/systemd/",
    "usr/lib/udev/hwdb.d/",
    "usr/share/bash-completion/",
    "usr/share/bug/",
    "usr/share/doc/",
    "usr/share/i18n/",
    "usr/share/info/",
    "usr/share/lintian/",
    "usr/share/locale/",
    "usr/share/man/",
    "usr/share/perl5/",
    "usr/share/zoneinfo/",
    "var/",
)

#: Folders of the kernel's module tree that storage work can need. All others (sound, graphics, network …) are left out.
MODULE_FOLDERS = (
    "arch/",
    "block/",
    "crypto/",
    "drivers/ata/",
    "drivers/block/",
    "drivers/char/",
    "drivers/dax/",
    "drivers/firmware/",
    "drivers/md/",
    "drivers/nvdimm/",
    "drivers/nvme/",
    "drivers/scsi/",
    "drivers/target/",
    "drivers/virtio/",
    "fs/",
    "lib/",
    "mm/",
)
#: What the tiny initramfs needs before it can see the root file system.
BOOT_MODULES = ("virtio_pci", "virtio_blk", "squashfs", "overlay", "virtio_console")
#: Drivers of each bus.
BUS_MODULES = {"virtio": (), "scsi": ("virtio_scsi", "sd_mod"), "sata": ("ahci", "sd_mod"), "nvme": ("nvme",)}
#: Loaded once into every template. RAID 4/5/6 costs 0.4-0.6 s of emulated time when it is loaded (it races its parity
#: algorithms against each other), which a restored clone never pays; and all clones of a template then use the same
#: algorithm, where a race run anew on a busy host might pick another one for every rig. A cold boot has no such
#: discount and loads only what the rig asks for.
TEMPLATE_MODULES = (
    *("md_mod", "raid0", "raid1", "raid10", "raid456", "dm_mod"),
    *("ext4", "xfs", "btrfs", "f2fs"),
)

#: Parts of the kernel that take long to start under emulation, and that no storage test can miss.
SLOW_INITCALLS = (
    *("acpi_thermal_init", "crypto_kdf108_init", "cubictcp_register", "digsig_init", "hpet_init", "i8042_init"),
    *("init_encrypted", "init_kprobe_trace", "jent_mod_init", "selinux_nf_ip_init"),
)
#: The guest kernel's command line.
#: `acpi=off` saves a third of an emulated boot, but hides the PM timer, by which the TSC's rate is measured: its port
#: is told. `tsc=reliable`, or else Linux takes a multi-socket AMD's TSC for unsynchronised and falls back to jiffies, a
#: clock with steps of 4 ms, useless for latencies. `norandmaps`: QEMU keeps translated code by its address, and would
#: translate a program that lies elsewhere each time anew each time; so fio starts in 0.26 s where it took 0.75.
#: `rodata=off` saves a check of all page tables, `lpj` the calibration of a delay loop that the TSC replaces anyway.
#: `panic=-1`, `oops=panic`: a broken kernel must end, not linger. A panic by `int3` is not the kernel's fault: before
#: 8.1, QEMU under TCG may translate code while another processor patches it, and runs the old one from then on. No word
#: here helps against that; the rig is lost, and the trial done again on another.
KERNEL_WORDS = (
    "console=ttyS0 quiet panic=-1 oops=panic acpi=off pmtmr=0x608 tsc=reliable no_timer_check random.trust_cpu=on "
    "ipv6.disable=1 audit=0 apparmor=0 selinux=0 nowatchdog cryptomgr.notests raid=noautodetect norandmaps "
    f"rodata=off lpj=10000000 initcall_blacklist={','.join(SLOW_INITCALLS)}"
)


@dataclass(frozen=True, slots=True)
class Recipe:
    """What determines an appliance: a suite for its programs, and a kernel (the suite's own, or a file)."""

    suite: str
    image: Path | None = None
    #: Of an image: what it held when it was asked for (see `kernel_key`); empty: whatever it holds now.
    key: str = ""


#: How the names of kernels of the user's own begin.
OWN = "own-kernel-"


def recipe_for(kernel: str | None) -> Recipe | None:
    """The recipe behind a `kernel:` value, or None if that names neither a known suite nor an existing file."""
    name = kernel or DEFAULT_KERNEL
    if name in SUITES:
        return Recipe(SUITES[name])
    return own_recipe(name) if Path(name).expanduser().is_file() else None


def own_recipe(name: str, key: str = "") -> Recipe:
    """The recipe of an image, which need not be there if what it held is known and was made use of before."""
    return Recipe(SUITES[DEFAULT_KERNEL], Path(name).expanduser().absolute(), key)


def guest_file(name: str) -> str:
    """The text of a script that goes into the appliance."""
    return files(__package__).joinpath("guest").joinpath(name).read_text(encoding="utf-8")


def digest(*parts: object) -> str:
    """A short content hash, good as a folder name."""
    return hashlib.sha256(json.dumps(parts, default=str).encode()).hexdigest()[:16]


def userland_key(suite: str) -> str:
    """Names the programs' half of an appliance."""
    files = map(guest_file, ("init", "orders", "fstab"))
    return f"{suite}-{digest(BUILDER_VERSION, suite, PACKAGES, DROPPED, *files)}"


def kernel_key(suite: str, image: Path | None) -> str:
    """Names the kernel's half. A user's own image counts by content, its modules by their name, size and time."""
    common = (BUILDER_VERSION, BOOT_MODULES, MODULE_FOLDERS, guest_file("early"))
    if image is None:
        return f"{suite}-kernel-{digest(*common, suite, KERNEL_PACKAGE)}"
    content = hashlib.sha256(image.read_bytes()).hexdigest()
    return f"{OWN}{digest(*common, content, *module_stamps(image))}"


def module_stamps(image: Path) -> list[tuple[str, int, int]]:
    """Name, size and time of every file in `lib/modules` beside a user's image."""
    root = image.parent / "lib" / "modules"
    found = ((path, path.stat()) for path in sorted(root.rglob("*")) if path.is_file())
    return [(str(path.relative_to(root)), stat.st_size, stat.st_mtime_ns) for path, stat in found]


def merged(name: str) -> str:
    """A package's path with /bin, /sbin and /lib merged into /usr, as every Debian of today has them.

    Empty for those folders themselves: newer packages ship them as links, older ones as folders, and we make them.
    """
    clean = name.removeprefix("./").rstrip("/")
    first, below, _ = clean.partition("/")
    if first not in {"bin", "sbin", "lib", "lib32", "lib64", "libx32"}:
        return clean
    return f"usr/{clean}" if below else ""


def wanted(path: str) -> bool:
    """Is this (merged) path of a package worth keeping?"""
    if path.startswith("usr/lib/modules/"):
        return module_wanted(path.removeprefix("usr/lib/modules/").partition("/")[2])
    return bool(path) and not f"{path}/".startswith(DROPPED) and not path.startswith("usr/lib/python3")


def module_wanted(path: str) -> bool:
    """Is this path below `lib/modules/RELEASE` worth keeping? Lists (`modules.*`) are; so are storage drivers."""
    folder, _, rest = path.partition("/")
    return folder.startswith("modules.") or (folder == "kernel" and f"{rest}/".startswith(MODULE_FOLDERS))


def kernel_release(image: bytes) -> str | None:
    """The release a bzImage says it is (`uname -r`), by the x86 boot protocol; None if it is no bzImage."""
    if image[0x202:0x206] != b"HdrS":
        return None
    start = 0x200 + int.from_bytes(image[0x20E:0x210], "little")
    return image[start : start + 256].split(b"\0", 1)[0].split(b" ", 1)[0].decode("ascii", "replace")


def kernel_payload(image: bytes) -> bytes:
    """The compressed kernel inside a bzImage, by the x86 boot protocol; its last four bytes tell its unpacked size."""
    start = ((image[0x1F1] or 4) + 1) * 512 + int.from_bytes(image[0x248:0x24C], "little")
    return image[start : start + int.from_bytes(image[0x24C:0x250], "little") - 4]


def load_order(dependencies: str, wanted_names: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """Paths of modules in an order in which `insmod` can take them, and the names that are not there (built in).

    `dependencies` is the text of `modules.dep`, which lists for every module all it needs, last first.
    """
    table = {line.partition(":")[0]: line.partition(":")[2].split() for line in dependencies.splitlines()}
    by_name = {module_name(path): path for path in table}
    order: dict[str, None] = {}
    for name in wanted_names:
        if name in by_name:
            order.update(dict.fromkeys([*reversed(table[by_name[name]]), by_name[name]]))
    return list(order), [name for name in wanted_names if name not in by_name]


def module_name(path: str) -> str:
    """The name `modprobe` knows a module file by."""
    return Path(path).name.partition(".")[0].replace("-", "_")
