"""The builder of the two halves of an appliance from Debian packages, without root. A process that can be killed."""

import json
import os
import re
import shutil
import sys
import tarfile
import traceback
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from functools import partial
from pathlib import Path
from typing import IO, Any

from matrix_runner.base.errors import HarnessBroken, MatrixError
from matrix_runner.base.files import IMAGE, read_input, scratch_folder
from matrix_runner.base.process import open_output, run
from matrix_runner.machines.base import Progress
from matrix_runner.machines.qemu import recipe

ARCHIVE_TIMEOUT = 1800
#: From Linux 6.19 on, `linux-image` is empty, and the others are its parts.
KERNEL_PARTS = ("linux-image-", "linux-base-", "linux-binary-", "linux-modules-")
#: A package of the standard kernel of a release: no cloud kernel, and no package that depends on the newest one.
_PACKAGE = re.compile(r"linux-(image|base|binary|modules)-(\d+\.[\d.]*\d(?:\+\w+(?:\.\d+)?)?(?:-\d+)?)-amd64")


def mirror_from(indextargets: str) -> str:
    for line in indextargets.splitlines():
        uri, origin, codename = [*line.split("|"), "", ""][:3]
        if origin == "Debian" and re.fullmatch(r"[a-z]+", codename) and uri.startswith(("http", "file")):
            return uri.rstrip("/")
    return recipe.DEFAULT_MIRROR


def configuration(folder: Path, host_dump: str) -> str:
    fetching = [
        line for line in host_dump.splitlines() if re.match(r"Acquire::(https?|ftp|Retries|Proxy)", line, re.IGNORECASE)
    ]
    return "\n".join(
        [
            f'Dir::State "{folder}"; Dir::State::status "{folder}/status"; Dir::State::lists "{folder}/lists";',
            f'Dir::Cache "{folder}/cache"; Dir::Etc::main "{folder}/none"; Dir::Etc::parts "{folder}/empty";',
            f'Dir::Etc::sourcelist "{folder}/sources.list"; Dir::Etc::sourceparts "{folder}/empty";',
            f'Dir::Etc::preferences "{folder}/none"; Dir::Etc::preferencesparts "{folder}/empty";',
            'APT::Architecture "amd64"; APT::Architectures { "amd64"; }; APT::Install-Recommends "false";',
            'APT::Sandbox::User "root"; Acquire::Languages "none"; Acquire::Retries "3"; Debug::NoLocking "true";',
            *fetching,
            "",
        ]
    )


def prepare(folder: Path, suites: Iterable[str], mirror: str, parts: str = "main") -> dict[str, str]:
    for part in ("lists/partial", "cache/archives/partial", "empty", "tmp"):
        (folder / part).mkdir(parents=True)
    (folder / "status").touch()
    signed = f"[signed-by={recipe.KEYRING}] " if Path(recipe.KEYRING).exists() else ""
    # With `file:` apt would leave packages in the archive; with `copy:` it copies them.
    lines = (f"deb {signed}{re.sub('^file:', 'copy:', mirror)} {suite} {parts}\n" for suite in suites)
    (folder / "sources.list").write_text("".join(lines))
    (folder / "apt.conf").write_text(configuration(folder, run(["apt-config", "dump"]).stdout))
    own = {"APT_CONFIG": str(folder / "apt.conf"), "DEBIAN_FRONTEND": "noninteractive"}
    # If there is no room for temporary files, apt calls the archive unsigned.
    return {**os.environ, **own, "TMPDIR": str(folder / "tmp")}


def mirror_in_use() -> str:
    if mirror := os.environ.get("MATRIX_MIRROR", "").rstrip("/"):
        return mirror
    return mirror_from(run(["apt-get", "indextargets", "--format", "$(REPO_URI)|$(ORIGIN)|$(CODENAME)"]).stdout)


def fetch(folder: Path, suite: str, packages: Iterable[str], progress: Progress, parts: str = "main") -> list[Path]:
    mirror = mirror_in_use()
    release = recipe.release_of(suite)
    env = prepare(folder, dict.fromkeys([release, suite]), mirror, parts)
    progress(f"reading the package lists of {suite}", 0.02)
    apt(["update"], mirror, env)
    progress(f"fetching packages of {suite}", 0.1)
    # Without it, apt takes only what the release has not.
    target = [] if suite == release else ["--target-release", suite]
    apt(["install", "--yes", "--download-only", *target, *packages], mirror, env)
    return sorted((folder / "cache" / "archives").glob("*.deb"))


def apt(arguments: list[str], mirror: str, env: dict[str, str], program: str = "apt-get") -> str:
    done = run([program, "-q", *arguments], env=env, timeout=ARCHIVE_TIMEOUT)
    # `update` exits with 0 although downloads failed, and prints warnings only.
    if done.returncode or "W: Failed to fetch" in done.stderr:
        raise HarnessBroken(
            f"cannot get Debian packages from {mirror}",
            details="\n".join((done.stdout + done.stderr).splitlines()[-12:]),
            resolution=hint(done.stderr),
        )
    return done.stdout


def hint(words: str) -> str:
    if "No space left" in words or "enough free space" in words:
        return "free some disk space, or point MATRIX_CACHE to a larger disk"
    if "NO_PUBKEY" in words or "not signed" in words:
        return "install the package debian-archive-keyring"
    return "check the network, or name another archive in MATRIX_MIRROR"


def package_version(archive: Path) -> tuple[str, str]:
    name, version, _ = archive.name.split("_", 2)
    return name, version.replace("%3a", ":")


def unpack(archive: Path, tree: Path, keep: Callable[[str], bool]) -> None:
    with (
        open_output(["dpkg-deb", "--fsys-tarfile", str(archive)]) as stream,
        tarfile.open(fileobj=stream, mode="r|") as tar,
    ):
        for member in tar:
            path = recipe.merge_usr(member.name)
            if keep(path):
                extract(tar, member, tree / path, tree)


def extract(tar: tarfile.TarFile, member: tarfile.TarInfo, target: Path, tree: Path) -> None:
    """Write one file, folder or link. Owners are left out: the image builder makes everything root's."""
    if member.isdir():
        target.mkdir(parents=True, exist_ok=True)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    if member.issym():
        target.symlink_to(member.linkname)
    elif member.islnk():
        os.link(tree / recipe.merge_usr(member.linkname), target)
    elif (content := tar.extractfile(member)) is not None:
        with target.open("wb") as out:
            shutil.copyfileobj(content, out)
        target.chmod(member.mode & 0o755 | 0o400)


UNPACKERS = 2
USERS = "root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
GROUPS = "root:x:0:\ntty:x:5:\ndisk:x:6:\nnogroup:x:65534:\n"
#: The ELF note with the entry point for hypervisors: owner "Xen", type 18.
PVH_NOTE = (4).to_bytes(4, "little") + (8).to_bytes(4, "little") + (18).to_bytes(4, "little") + b"Xen\0"
#: The first bytes of a packed file, and the program that unpacks it.
MAGIC = {b"\xfd7zXZ\0": "xz", b"(\xb5/\xfd": "zstd", b"\x1f\x8b": "gzip"}
#: Files that Debian's maintainer scripts would create.
ETC = {
    "etc/passwd": USERS,
    "etc/fstab": recipe.guest_file("fstab"),
    "etc/group": GROUPS,
    "etc/hostname": "matrix\n",
    "etc/hosts": "127.0.0.1 localhost matrix\n",
    "etc/machine-id": "",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
    "etc/ld.so.conf": "/usr/local/lib\n/usr/lib/x86_64-linux-gnu\n/usr/lib\n",
}
#: Links that alternatives or maintainer scripts would create. Files of packages take precedence.
LINKS = {
    "bin": "usr/bin",
    "sbin": "usr/sbin",
    "lib": "usr/lib",
    "lib64": "usr/lib64",
    "usr/bin/sh": "dash",
    "usr/bin/awk": "mawk",
    "etc/mtab": "../proc/self/mounts",
    "var/run": "../run",
    "var/lock": "../run/lock",
}
MOUNT_POINTS = ("dev", "proc", "sys", "run", "tmp", "root", "mnt", "var/lib", "var/log", "usr/lib/modules", "etc/lvm")


def tool(*argv: str, stdin: str = "") -> None:
    done = run(argv, stdin=stdin, timeout=600)
    if done.returncode:
        last = "\n".join((done.stdout + done.stderr).splitlines()[-8:])
        raise HarnessBroken(f"{argv[0]} failed with status {done.returncode}", details=last)


def unpack_all(
    archives: Iterable[Path],
    tree: Path,
    progress: Progress,
    span: tuple[float, float],
    keep: Callable[[str], bool] = recipe.is_wanted,
) -> None:
    """Unpack in parallel: most of the work is in processes of `dpkg-deb`."""
    todo = sorted(archives, key=lambda archive: archive.stat().st_size, reverse=True)
    total, done, shown = sum(archive.stat().st_size for archive in todo), 0, 0.0
    with ThreadPoolExecutor(UNPACKERS) as pool:
        for archive, _ in zip(todo, pool.map(partial(unpack, tree=tree, keep=keep), todo), strict=True):
            done += archive.stat().st_size
            now = span[0] + (span[1] - span[0]) * done / total
            if now > shown + 0.01:
                progress("unpacking packages", shown := now)


def make_squashfs(tree: Path, image: Path) -> None:
    tool("mksquashfs", str(tree), str(image), "-all-root", "-noI", "-noD", "-noF", "-noX", "-no-xattrs", "-quiet")


def userland(suite: str, work: Path, out: Path, progress: Progress) -> dict[str, object]:
    archives = fetch(work / "apt", suite, recipe.PACKAGES, progress)
    tree = work / "tree"
    tree.mkdir()
    unpack_all(archives, tree, progress, (0.2, 0.8))
    furnish(tree)
    tool("ldconfig", "-r", str(tree), "-X")
    progress("packing the root file system", 0.85)
    make_squashfs(tree, out / "root.squashfs")
    return {"versions": dict(map(package_version, archives))}


def furnish(tree: Path) -> None:
    for folder in MOUNT_POINTS:
        (tree / folder).mkdir(parents=True, exist_ok=True)
    for name, text in ETC.items():
        (tree / name).write_text(text)
    for name, target in LINKS.items():
        if not (tree / name).exists():
            (tree / name).symlink_to(target)
    ours = tree / "usr/lib/matrix"
    ours.mkdir()
    for name in ("init", "orders"):
        (ours / name).write_text(recipe.guest_file(name))
        (ours / name).chmod(0o755)


def reopen(debian: Path, tree: Path, *, modules: bool) -> None:
    """Take busybox, and perhaps the modules, from Debian's half: without network, and the same for all versions."""
    (tree / "usr/lib").mkdir(parents=True)
    tool("cpio", "--quiet", "-id", "-D", str(tree / "usr"), "-F", str(debian / "initramfs"), "bin/busybox")
    if modules:
        modules_tree = str(tree / "usr/lib/modules")
        tool("unsquashfs", "-quiet", "-no-progress", "-d", modules_tree, str(debian / "modules.squashfs"))


def has_modules_of(release: str, folders: Iterable[Path]) -> bool:
    return any((folder / release).is_dir() for folder in folders)


def is_wanted(path: str) -> bool:
    if path.startswith("usr/lib/modules/") and path.endswith(("/vmlinuz", "/config")):  # from Linux 6.19 on
        return True
    parts = ("usr/lib/modules/", "usr/bin/busybox")
    return path.startswith(("boot/vmlinuz-", "boot/config-")) or (path.startswith(parts) and recipe.is_wanted(path))


def kernel(suite: str, own: Path | None, work: Path, out: Path, progress: Progress) -> dict[str, Any]:
    tree = work / "tree"
    image = recipe.image_in(own) if own else None
    debian = out.parent / recipe.kernel_key(suite, None)
    if own:
        reopen(debian, tree, modules=image is None)
    else:
        archives = fetch(work / "apt", suite, [recipe.KERNEL_PACKAGE, "busybox-static"], progress)
        for archive in archives:
            if archive.name.startswith((*KERNEL_PARTS, "busybox-static_")):
                unpack(archive, tree, is_wanted)
    progress("packing the kernel", 0.8)
    source = image or (debian / "vmlinuz" if own else recipe.image_in(tree))
    if source is None:
        raise HarnessBroken(f"the packages of {suite} have no kernel")
    shutil.copyfile(source, out / "vmlinuz")
    release = recipe.kernel_release(read_input(source, IMAGE))
    if release is None:
        raise HarnessBroken(f"{source} is no bzImage", resolution="name the arch/x86/boot/bzImage of a kernel build")
    unpack_kernel(read_input(source, IMAGE), out / "vmlinux")
    if image is None:
        old, new = tree / "boot" / f"config-{release}", tree / "usr/lib/modules" / release / "config"
        shutil.copyfile(debian / recipe.CONFIG if own else old if old.exists() else new, out / recipe.CONFIG)
    modules = tree / "usr/lib/modules"
    (modules / release / "vmlinuz").unlink(missing_ok=True)  # the guest does not need it
    for folder in recipe.modules_in(own) if own else ():
        shutil.copytree(folder, modules, symlinks=True, dirs_exist_ok=True, ignore=shutil.ignore_patterns("vmlinuz"))
    if image is None and own and (brought := recipe.modules_in(own)) and not has_modules_of(release, brought):
        raise HarnessBroken(
            f"{own} has no modules of {release}, the kernel that starts here",
            resolution="add the bzImage of its modules, or leave them out",
        )
    index_modules(modules / release)
    names = module_names(modules / release)
    lacking = " ".join(name for name in recipe.BOOT_MODULES if name not in names)
    for name, file in (recipe.programs_in(own) if own else {}).items():
        (target := modules / "programs" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(file, target, follow_symlinks=False)
    make_squashfs(modules, out / "modules.squashfs")
    initramfs(tree, modules / release, work / "early", out / "initramfs")
    return {"versions": {"kernel": release, "not modules": lacking}, "modules": names}


def list_kernels(suites: Iterable[str]) -> dict[str, str]:
    """Return the address and checksum of each kernel's packages on the mirror, a line each, by the kernel's release.

    The mirror keeps some parts of a kernel longer than others, and one alone is no kernel.
    """
    mirror = mirror_in_use()
    with scratch_folder("matrix-apt") as folder:
        env = prepare(folder, suites, mirror)
        apt(["update"], mirror, env)
        packages = filter(_PACKAGE.fullmatch, apt(["pkgnames", "linux-"], mirror, env, "apt-cache").split())
        lines = apt(["download", "--print-uris", *packages], mirror, env).splitlines()
    return packages_of_kernels(lines)


def packages_of_kernels(lines: Iterable[str]) -> dict[str, str]:
    found: dict[str, dict[str, str]] = {}
    for line in lines:
        if line.startswith("'") and (name := _PACKAGE.match(line.split()[1])):
            uri, _, _, checksum = line.replace("'", "").split()
            found.setdefault(name[2], {})[name[1]] = f"{uri} {checksum}"
    wholes = {
        release: ("base", "binary", "modules") if "binary" in parts else ("image",) for release, parts in found.items()
    }
    return {
        release: "\n".join(found[release][kind] for kind in kinds)
        for release, kinds in wholes.items()
        if {*kinds} <= found[release].keys()
    }


def unpack_kernel(image: bytes, target: Path) -> None:
    """Write the plain kernel beside the bzImage, if it can be unpacked and QEMU can start it (PVH)."""
    packed = target.with_suffix(".packed")
    packed.write_bytes(recipe.kernel_payload(image))
    with suppress(UnknownCompression):
        with open_unpacked(packed) as stream:
            plain = stream.read()
        if plain.startswith(b"\x7fELF") and PVH_NOTE in plain:
            target.write_bytes(plain)
    packed.unlink()


class UnknownCompression(HarnessBroken):
    pass


def open_unpacked(packed: Path) -> AbstractContextManager[IO[bytes]]:
    with packed.open("rb") as stream:
        head = stream.read(max(map(len, MAGIC)))
    for magic, program in MAGIC.items():
        if head.startswith(magic):
            return open_output([program, "-dc", str(packed)])
    raise UnknownCompression(f"{packed} has an unknown compression", resolution="compress it with xz, zstd or gzip")


def index_modules(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for packed in sorted(folder.rglob("*.ko.*")):
        unpack_module(packed)
    tree = folder.parents[3]
    (tree / "lib").symlink_to("usr/lib")  # where depmod looks
    tool("depmod", "-b", str(tree), folder.name)


def module_names(folder: Path) -> list[str]:
    """Return the modules of a kernel, those that are built in included."""
    lists = [folder / name for name in ("modules.dep", "modules.builtin")]
    lines = [line for path in lists if path.exists() for line in path.read_text().splitlines()]
    return sorted({recipe.module_name(line) for line in lines})


def unpack_module(packed: Path) -> None:
    """Replace a compressed module by its content, because the host unpacks faster than the guest."""
    with open_unpacked(packed) as stream, packed.with_suffix("").open("wb") as out:
        shutil.copyfileobj(stream, out)
    packed.unlink()


def initramfs(tree: Path, modules: Path, early: Path, image: Path) -> None:
    for folder in ("bin", "modules", "dev", "sys", "lower", "upper", "root"):
        (early / folder).mkdir(parents=True)
    shutil.copy(tree / "usr/bin/busybox", early / "bin/busybox")
    order = recipe.load_order((modules / "modules.dep").read_text(), recipe.BOOT_MODULES)
    for number, path in enumerate(order):
        shutil.copyfile(modules / path, early / "modules" / f"{number:02}-{Path(path).name}")
    (early / "init").write_text(recipe.guest_file("early"))
    (early / "init").chmod(0o755)
    names = "\n".join(str(path.relative_to(early)) for path in sorted(early.rglob("*")))
    tool("cpio", "--quiet", "-o", "-H", "newc", "-R", "0:0", "-D", str(early), "-F", str(image), stdin=names + "\n")


def emit(**what: object) -> None:
    print(json.dumps(what), flush=True)  # noqa: T201 - the protocol's channel is standard output


def entry(arguments: list[str]) -> int:
    def report(brief: str, fraction: float | None = None) -> None:
        emit(brief=brief, fraction=fraction)

    half, suite, image, out = arguments
    target, work = Path(out), Path(out, "work")
    try:
        work.mkdir()
        if half == "userland":
            made = userland(suite, work, target, report)
        elif half == "zfs":
            from matrix_runner.machines.qemu.zfs import with_zfs

            made = with_zfs(suite, work, target, report)
        else:
            made = kernel(suite, Path(image) if image else None, work, target, report)
        shutil.rmtree(work)
        manifest = {"suite": suite, "image": image, **made}
        (target / "manifest.json").write_text(json.dumps(manifest, indent=1))
    except MatrixError as error:
        emit(error=error.brief, details=error.details, resolution=error.resolution)
    except OSError as error:
        emit(error=f"cannot build the appliance: {error}", details=traceback.format_exc(limit=3), resolution="")
    else:
        return 0
    return 1


if __name__ == "__main__":
    sys.exit(entry(sys.argv[1:]))
