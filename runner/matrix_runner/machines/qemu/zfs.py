"""The builder of a kernel's half with ZFS: Debian's source (DKMS), compiled in a folder of packages, without a boot.

It needs no root: a user namespace lets `chroot` use the folder. Each host builds its own; nothing is distributed.
"""

import json
import os
import re
import shutil
from collections import deque
from pathlib import Path

from matrix_runner.base.errors import HarnessBroken
from matrix_runner.base.process import open_output
from matrix_runner.machines.base import Progress
from matrix_runner.machines.qemu import build, recipe

#: Lines of output of the two steps, by which progress is shown. Other versions have some more or fewer.
_CHECKS, _OBJECTS = 375, 290
_UNUSED = (*build.KERNEL_PARTS, "systemd_", "udev_", "tzdata_", "dracut-install_", "initramfs-tools")
_DOCUMENTS = ("usr/share/doc/", "usr/share/man/", "usr/share/locale/", "var/")
_LAST_LINES = 12


def with_zfs(suite: str, work: Path, out: Path, progress: Progress) -> dict[str, object]:
    debian = out.parent / recipe.kernel_key(suite, None)
    release = json.loads((debian / "manifest.json").read_text())["versions"]["kernel"]
    archives = _fetch(suite, release, work, progress)
    root, own = work / "root", work / "own"
    wanted = [one for one in archives if not one.name.startswith(_UNUSED)]
    build.unpack_all(wanted, root, progress, (0.1, 0.2), lambda path: bool(path) and not path.startswith(_DOCUMENTS))
    _link(root)
    (meta,) = (root / "usr/src").glob("zfs-*/META")
    # Without its module, stacks with ZFS are skipped; Debian's backports have a newer kernel from time to time.
    modules = _compile(root, release, progress) if is_for(meta.read_text(), release) else []
    (target := own / "lib/modules" / release / "updates").mkdir(parents=True)
    for module in modules:
        shutil.copy2(module, target)
    for archive in archives:
        if archive.name.startswith(recipe.ZFS_PACKAGES):
            build.unpack(archive, own, recipe.is_wanted)
    made = build.kernel(suite, own, work, out, progress)
    versions = dict(map(build.package_version, archives))
    return {**made, "versions": {**made["versions"], recipe.ZFS_TOOLS: versions[recipe.ZFS_TOOLS]}}


def is_for(meta: str, release: str) -> bool:
    """Return whether ZFS' source is for a release of Linux, by its file META: none is for a later one than it names."""
    last, found = re.search(r"^Linux-Maximum:\s*(\d+)\.(\d+)", meta, re.MULTILINE), re.match(r"(\d+)\.(\d+)", release)
    return not (last and found) or [*map(int, found.groups())] <= [*map(int, last.groups())]


def _fetch(suite: str, release: str, work: Path, progress: Progress) -> list[Path]:
    packages = (*recipe.ZFS_BUILD_PACKAGES, f"linux-headers-{release}")
    try:
        return build.fetch(work / "apt", suite, packages, progress, "main contrib")
    except HarnessBroken as error:
        if f"linux-headers-{release}" not in error.details:
            raise
        raise HarnessBroken(
            f"the archive no longer has the headers of the appliance's kernel, {release}, which ZFS needs",
            details=error.details,
            resolution="`matrix clean --cache` removes the appliance; the next use builds it with the kernel of today",
        ) from None


def _link(root: Path) -> None:
    """Make the links that maintainer scripts make."""
    compiler = min(
        path.name for path in (root / "usr/bin").glob("*gcc-[0-9]*")
    )  # with its platform alone, if newer headers bring it
    for name, target in {**build.LINKS, "usr/bin/gcc": compiler}.items():
        if not os.path.lexists(link := root / name):
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(target)
    (root / "tmp").mkdir(exist_ok=True)


def _compile(root: Path, release: str, progress: Progress) -> list[Path]:
    script = root.parent / "build-zfs"
    script.write_text(recipe.guest_file("build-zfs"))
    user = () if os.geteuid() == 0 else ("--map-root-user",)
    apart = ("unshare", *user, "--mount", "--pid", "--fork", "--kill-child")
    brief = f"building ZFS for Linux {release}, once, in about {recipe.ZFS_MINUTES} minutes"
    last, checks, objects, shown = deque[str](maxlen=_LAST_LINES), 0, 0, 0.0
    try:
        with open_output([*apart, "sh", str(script), str(root), release]) as output:
            for line in output:
                last.append(line.decode(errors="replace").rstrip())
                checks += line.startswith(b"checking ")
                objects += line.startswith(b"  CC ")
                done = 0.2 + 0.25 * min(1.0, checks / _CHECKS) + 0.5 * min(1.0, objects / _OBJECTS)
                if done > shown + 0.005:
                    progress(brief, shown := done)
    except HarnessBroken as error:
        raise HarnessBroken(
            f"cannot build ZFS for Linux {release}",
            details="\n".join([error.brief, *last]),
            resolution="it needs user namespaces (unshare --map-root-user) or root; `matrix doctor` names other needs",
        ) from None
    (source,) = (root / "usr/src").glob("zfs-*")
    return sorted((source / "module").rglob("*.ko"))  # two, or nine before 2.2
