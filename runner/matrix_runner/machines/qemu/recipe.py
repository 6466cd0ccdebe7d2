"""The recipe of the appliance: its packages, the files that it needs of them, and its key in the cache."""

import hashlib
import json
from collections.abc import Collection
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from matrix_runner.base.files import IMAGE, read_input
from matrix_runner.language.matrix import BACKPORTS, SUITES

#: Raise it when the build changes and the other inputs of the key do not show it.
BUILDER_VERSION = 4

DEFAULT_KERNEL = "debian-13"
DEFAULT_MIRROR = "http://deb.debian.org/debian"
#: With less memory the kernel and the tools leave too little for work.
LEAST_MEMORY = 192 * 2**20
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"

#: The standard kernel. The cloud kernel has no AHCI, and so no NCQ.
KERNEL_PACKAGE = "linux-image-amd64"
PACKAGES = (
    *("base-files", "bash", "bash-static", "bcache-tools", "btrfs-progs", "busybox-static", "coreutils"),
    *("cryptsetup-bin", "dash", "diffutils"),
    *("dmsetup", "dosfstools", "e2fsprogs", "f2fs-tools", "fdisk", "findutils", "fio", "gdisk", "grep", "gzip"),
    *("hdparm", "kmod", "kpartx", "libc-bin"),
    *("lvm2", "mawk", "mdadm", "mount", "ncurses-base", "parted", "perl-base", "procps", "qemu-guest-agent", "sed"),
    *("sysstat", "tar", "thin-provisioning-tools", "util-linux", "xfsprogs"),
)

#: The module that no kernel of Debian has, and the package of its programs.
ZFS, ZFS_TOOLS = "zfs", "zfsutils-linux"
#: Its build takes 8 minutes of processor time on an AMD EPYC host, half of them in steps of one processor.
ZFS_MINUTES = 10
#: The packages of ZFS whose files go into the guest, by the beginning of their names, and those that build its modules
#: beside the headers of the kernel. The essential ones are no dependencies.
ZFS_PACKAGES = (
    *(ZFS_TOOLS, "libnvpair", "libuutil", "libzfs", "libzpool", "libtirpc", "libgssapi-krb5", "libkrb5"),
    *("libk5crypto", "libkeyutils", "libcom-err", "libssl"),
)
ZFS_BUILD_PACKAGES = (
    *("bash", "coreutils", "dash", "diffutils", "findutils", "grep", "gzip", "libc-bin", "mawk", "sed", "util-linux"),
    *("zfs-dkms", ZFS_TOOLS),
)

#: The configuration of Debian's kernel, in its half of the appliance.
CONFIG = "config"
#: Parts of packages that the appliance does not need.
EXCLUDED = (
    *("boot/", "usr/lib/firmware/", "usr/lib/python3", "usr/lib/systemd/", "usr/lib/udev/hwdb.d/"),
    *("usr/share/bash-completion/", "usr/share/bug/", "usr/share/doc/", "usr/share/i18n/", "usr/share/info/"),
    *("usr/share/lintian/", "usr/share/locale/", "usr/share/man/", "usr/share/perl5/", "usr/share/zoneinfo/", "var/"),
)

#: Where a folder of the user has its kernel image and its modules.
_MODULES = ("lib/modules", "usr/lib/modules")
_IMAGES = ("bzImage", "vmlinuz*", "boot/vmlinuz*", *(f"{folder}/*/vmlinuz" for folder in _MODULES))
#: Folders of the kernel's module tree for storage work, without sound, graphics, network and others.
MODULE_FOLDERS = (
    *("arch/", "block/", "crypto/", "drivers/ata/", "drivers/block/", "drivers/char/", "drivers/dax/"),
    *("drivers/firmware/", "drivers/md/", "drivers/nvdimm/", "drivers/nvme/", "drivers/scsi/", "drivers/target/"),
    *("drivers/virtio/", "fs/", "lib/", "mm/"),
)
BOOT_MODULES = ("virtio_pci", "virtio_blk", "squashfs", "overlay", "virtio_console")
BUS_MODULES = {"virtio": (), "scsi": ("virtio_scsi", "sd_mod"), "sata": ("ahci", "sd_mod"), "nvme": ("nvme",)}
#: Loaded into every template, but in a cold boot only on demand. RAID 4/5/6 benchmarks its parity algorithms for 0.4 to
#: 0.6 s of emulated time. Clones save this time, and all of them use the same algorithm, while the result of a new
#: benchmark on a busy host varies.
TEMPLATE_MODULES = (*("md_mod", "raid0", "raid1", "raid10", "raid456", "dm_mod"), *("ext4", "xfs", "btrfs", "f2fs"))

#: Parts of the kernel that start slowly under emulation and that storage tests do not need.
SLOW_INITCALLS = (
    *("acpi_thermal_init", "crypto_kdf108_init", "cubictcp_register", "digsig_init", "hpet_init", "i8042_init"),
    *("init_encrypted", "init_kprobe_trace", "jent_mod_init", "selinux_nf_ip_init"),
)
#: The guest kernel's command line.
#: `acpi=off` saves a third of an emulated boot. It hides the PM timer, which measures the rate of the TSC, so `pmtmr`
#: has its port. Without `tsc=reliable` Linux takes the TSC of a multi-socket AMD for unsynchronised and uses jiffies, a
#: clock with steps of 4 ms. `norandmaps`: QEMU caches translated code by address; with constant addresses fio starts in
#: 0.26 s instead of 0.75. `rodata=off` saves a check of all page tables, `lpj` the calibration of a delay loop.
#: `panic=-1`, `oops=panic`: a broken kernel must end. A panic by `int3` is a fault of QEMU before 8.1: under TCG it may
#: translate code while another processor patches it. No option prevents this; the trial is repeated on another rig.
KERNEL_WORDS = (
    "console=ttyS0 quiet panic=-1 oops=panic acpi=off pmtmr=0x608 tsc=reliable no_timer_check random.trust_cpu=on "
    "ipv6.disable=1 audit=0 apparmor=0 selinux=0 nowatchdog cryptomgr.notests raid=noautodetect norandmaps "
    f"rodata=off lpj=10000000 initcall_blacklist={','.join(SLOW_INITCALLS)}"
)


@dataclass(frozen=True, slots=True)
class Recipe:
    suite: str
    #: The user's kernel image, or a folder of what replaces files of the appliance: a kernel, modules, programs.
    source: Path | None = None
    key: str = ""  # the `kernel_key` of the source at the start of the run; empty: that of its content now
    zfs: bool = False  # with ZFS, built for Debian's kernel

    @property
    def release(self) -> str:
        return release_of(self.suite)

    @property
    def image(self) -> Path | None:
        return image_in(self.source) if self.source else None


def release_of(suite: str) -> str:
    """Return the suite of Debian's release, for one of its backports, too."""
    return suite.removesuffix(BACKPORTS)


OWN = "own-kernel-"
_GZIP = b"\x1f\x8b"


def recipe_for(kernel: str | None, modules: Collection[str] = ()) -> Recipe | None:
    name = kernel or DEFAULT_KERNEL
    if name in SUITES:
        return Recipe(SUITES[name], zfs=ZFS in modules)
    path = Path(name).expanduser()
    return own_recipe(name) if path.exists() and path.resolve() != Path("/") else None  # the system is no version of it


def own_recipe(name: str, key: str = "") -> Recipe:
    return Recipe(SUITES[DEFAULT_KERNEL], Path(name).expanduser().absolute(), key)


def image_in(source: Path) -> Path | None:
    """Return the kernel image of a source; None: its folder has none, and the appliance keeps Debian's."""
    if not source.is_dir():
        return source
    return next((found for name in _IMAGES for found in sorted(source.glob(name)) if found.is_file()), None)


def modules_in(source: Path) -> list[Path]:
    root = source if source.is_dir() else source.parent
    return [folder for name in _MODULES if (folder := root / name).is_dir()]


def programs_in(source: Path) -> dict[str, Path]:
    """Return the files of a folder that replace files of the appliance, by their paths there."""
    if not source.is_dir():
        return {}
    skipped = (*(source / name for name in (*_MODULES, "boot")), *filter(None, [image_in(source)]))
    tops = [source / name for name in ("bin", "etc", "lib", "lib32", "lib64", "libx32", "opt", "sbin", "usr")]
    each = (path for top in tops if top.is_dir() for path in sorted(top.rglob("*")))
    files = (path for path in each if path.is_symlink() or path.is_file())
    found = {merge_usr(str(path.relative_to(source))): path for path in files}
    return {
        name: path
        for name, path in found.items()
        if "/" in name and not any(path.is_relative_to(one) for one in skipped)
    }


def guest_file(name: str) -> str:
    return files(__package__).joinpath("guest").joinpath(name).read_text(encoding="utf-8")


def digest(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts, default=str).encode()).hexdigest()[:16]


def userland_key(suite: str) -> str:
    files = map(guest_file, ("init", "orders", "fstab"))
    return f"{suite}-{digest(BUILDER_VERSION, suite, PACKAGES, EXCLUDED, *files)}"


def kernel_key(suite: str, source: Path | None, *, zfs: bool = False) -> str:
    common = (BUILDER_VERSION, BOOT_MODULES, MODULE_FOLDERS, guest_file("early"))
    if source is None and zfs:
        return f"{suite}-zfs-{digest(*common, suite, ZFS_PACKAGES, ZFS_BUILD_PACKAGES, guest_file('build-zfs'))}"
    if source is None:
        return f"{suite}-kernel-{digest(*common, suite, KERNEL_PACKAGE)}"
    image = image_in(source)
    content = hashlib.sha256(read_input(image, IMAGE)).hexdigest() if image else KERNEL_PACKAGE
    files = {str(path.relative_to(root)): path for root in modules_in(source) for path in sorted(root.rglob("*"))}
    found = ((name, path.stat()) for name, path in (files | programs_in(source)).items() if path.is_file())
    return f"{OWN}{digest(*common, content, *((name, stat.st_size, stat.st_mtime_ns) for name, stat in found))}"


def merge_usr(name: str) -> str:
    """Return a package's path with /bin, /sbin and /lib merged into /usr; empty for these folders themselves."""
    clean = name.removeprefix("./").rstrip("/")
    first, below, _ = clean.partition("/")
    if first not in {"bin", "sbin", "lib", "lib32", "lib64", "libx32"}:
        return clean
    return f"usr/{clean}" if below else ""


def is_wanted(path: str) -> bool:
    if path.startswith("usr/lib/modules/"):  # below RELEASE: lists and storage drivers
        folder, _, rest = path.removeprefix("usr/lib/modules/").partition("/")[2].partition("/")
        return folder.startswith("modules.") or (folder == "kernel" and f"{rest}/".startswith(MODULE_FOLDERS))
    return bool(path) and not f"{path}/".startswith(EXCLUDED) and not path.startswith("usr/lib/python3")


def kernel_release(image: bytes) -> str | None:
    """Return the release of a bzImage (`uname -r`) by the x86 boot protocol; None if it is no bzImage."""
    if image[0x202:0x206] != b"HdrS":
        return None
    start = 0x200 + int.from_bytes(image[0x20E:0x210], "little")
    return image[start : start + 256].split(b"\0", 1)[0].split(b" ", 1)[0].decode("ascii", "replace")


def kernel_payload(image: bytes) -> bytes:
    """Return the compressed kernel of a bzImage by the x86 boot protocol.

    The build adds four bytes with the size, but not to gzip, which has them itself.
    """
    start = ((image[0x1F1] or 4) + 1) * 512 + int.from_bytes(image[0x248:0x24C], "little")
    payload = image[start : start + int.from_bytes(image[0x24C:0x250], "little")]
    return payload if payload.startswith(_GZIP) else payload[:-4]


def module_name(path: str) -> str:
    """Return the name of a module by its path, as in a line of `modules.dep`."""
    return Path(path.partition(":")[0]).name.partition(".")[0].replace("-", "_")


def load_order(dependencies: str, wanted_names: tuple[str, ...]) -> list[str]:
    """Return the paths of modules in the order for `insmod`, by `modules.dep`; built-in ones have none."""
    table = {line.partition(":")[0]: line.partition(":")[2].split() for line in dependencies.splitlines()}
    by_name = {module_name(path): path for path in table}
    order: dict[str, None] = {}
    for name in wanted_names:
        if name in by_name:
            order.update(dict.fromkeys([*reversed(table[by_name[name]]), by_name[name]]))
    return list(order)
