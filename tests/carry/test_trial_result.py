# ruff: noqa: E101 - some programs mix tabs and blanks
"""Which line says why, in what programs really print when they fail."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matrix_runner.carry.trial_result import evidence, finding
from matrix_runner.machines.base import StepResult
from matrix_runner.work.fio.workload import FioWorkload

WORK = FioWorkload.model_validate({"rw": "write"})

MKFS_XFS = """\
stripe unit (1000) must be a multiple of the sector size (512)
Usage: mkfs.xfs
/* blocksize */		[-b size=num]
/* metadata */		[-m crc=0|1,finobt=0|1,uuid=xxx,rmapbt=0|1,reflink=0|1,
			    inobtcount=0|1,bigtime=0|1,autofsck=xxx,
/* no discard */	[-K]
<devicename> is required unless -d name=xxx is given.
<num> is xxx (bytes), xxxs (sectors), xxxb (fs blocks), xxxk (xxx KiB),
"""
MKFS_EXT4 = """\

Bad option(s) specified: foo

Extended options are separated by commas, and may take an argument which
	is set off by an equals ('=') sign.

Valid extended options are:
	num_backup_sb=<0|1|2>
	lazy_itable_init=<0 to disable, 1 to enable>
	discard
	nodiscard

"""
SAID = {
    "mount, new": (
        (
            "mount: /run/matrix/mnt-0: fsconfig() failed: ext3: Unknown parameter 'baria'.\n"
            "       dmesg(1) may have more information after failed mount system call.\n"
        ),
        "mount: /run/matrix/mnt-0: fsconfig() failed: ext3: Unknown parameter 'baria'.",
    ),
    "mount, old": (
        (
            "mount: /mnt: wrong fs type, bad option, bad superblock on /dev/nonex, missing codepage or helper program, or "
            "other error.\n       dmesg(1) may have more information after failed mount system call.\n"
        ),
        (
            "mount: /mnt: wrong fs type, bad option, bad superblock on /dev/nonex, missing codepage or helper program, or "
            "other error."
        ),
    ),
    "mount, option": (
        "mount: unrecognized option '--foo'\nTry 'mount --help' for more information.\n",
        "mount: unrecognized option '--foo'",
    ),
    "mdadm, missing": (
        "mdadm: cannot open /dev/nonex1: No such file or directory\n",
        "mdadm: cannot open /dev/nonex1: No such file or directory",
    ),
    "mdadm, continued": (
        (
            "mdadm: '1' is an unusual number of drives for an array, so it is probably\n"
            "     a mistake.  If you really mean it you will need to specify --force before\n"
            "     setting the number of drives.\n"
        ),
        (
            "mdadm: '1' is an unusual number of drives for an array, so it is probably a mistake.  If you really mean it you "
            "will need to specify --force before setting the number of drives."
        ),
    ),
    "mdadm, usage": (
        "mdadm: unrecognized option '--foo'\nUsage: mdadm --help\n  for help\n",
        "mdadm: unrecognized option '--foo'",
    ),
    "mdadm, refused": (
        (
            "mdadm: /dev/vda appears to be part of a raid array:\n"
            "       level=raid5 devices=4 ctime=Sat Nov 21 10:00:00 2026\n"
            "mdadm: RUN_ARRAY failed: Invalid argument\n"
        ),
        "mdadm: RUN_ARRAY failed: Invalid argument",
    ),
    "lvm, type": (
        (
            "  WARNING: Unrecognised segment type foo\n  Invalid argument for --type: foo\n"
            "  Error during parsing of command line.\n"
        ),
        "Invalid argument for --type: foo",
    ),
    "lvm, kernel": (
        (
            "  striped: Required device-mapper target(s) not detected in your kernel.\n"
            "  Run `lvcreate --help' for more information.\n"
        ),
        "striped: Required device-mapper target(s) not detected in your kernel.",
    ),
    "lvm, warnings first": (
        (
            "  WARNING: linux_raid_member signature detected on /dev/vda at offset 4096. Wiping it.\n"
            '  Physical volume "/dev/vda" successfully created.\n  Volume group "matrix-0" successfully created\n'
            '  Volume group "matrix-0" has insufficient free space (255 extents): 300 required.\n'
        ),
        'Volume group "matrix-0" has insufficient free space (255 extents): 300 required.',
    ),
    "lvm, aftermath": (
        "  device-mapper: reload ioctl on  (252:3) failed: Invalid argument\n  Failed to activate new LV.\n",
        "device-mapper: reload ioctl on  (252:3) failed: Invalid argument",
    ),
    "lvm, only a warning": ("  WARNING: device /dev/vda not found\n", "WARNING: device /dev/vda not found"),
    "cryptsetup": (
        "Device /tmp/small is too small for activation, there is no remaining space for data.\n",
        "Device /tmp/small is too small for activation, there is no remaining space for data.",
    ),
    "cryptsetup, usage first": (
        (
            "Usage: integritysetup [-?VqBDRv] [-?|--help] [--usage] [-V|--version]\n"
            "        [--allow-discards] [-q|--batch-mode] [--no-wipe]\n"
            "        [-v|--verbose] [--wipe] [OPTION...] <action> <action-specific>\n--bogus: unknown option\n"
        ),
        "--bogus: unknown option",
    ),
    "cryptsetup, code": (
        (
            "Cannot use device /dev/vda which is in use (already mapped or mounted).\nCommand failed with code -5 (device "
            "already exists or device is busy).\n"
        ),
        "Cannot use device /dev/vda which is in use (already mapped or mounted).",
    ),
    "mkfs.xfs": (MKFS_XFS, "stripe unit (1000) must be a multiple of the sector size (512)"),
    "mkfs.ext4": (MKFS_EXT4, "Bad option(s) specified: foo"),
    "mkfs.btrfs": (
        (
            "WARNING: RAID5/6 support has known problems is strongly discouraged\n"
            "\t to be used besides testing or evaluation.\n\n"
            "ERROR: unable to create FS with data profile RAID6 (have 1 devices but 3 devices are required)\n"
        ),
        "ERROR: unable to create FS with data profile RAID6 (have 1 devices but 3 devices are required)",
    ),
    "mkfs.btrfs, small": (
        (
            "ERROR: '/tmp/small' is too small to make a usable filesystem\nbtrfs-progs v6.14\n"
            "See https://btrfs.readthedocs.io for more information.\n\n"
        ),
        "ERROR: '/tmp/small' is too small to make a usable filesystem",
    ),
    "ours": (
        "mount: no such thing\nmatrix: a disk is not empty: /dev/vda\nTry 'mount --help'\n",
        "a disk is not empty: /dev/vda",
    ),
    "ours and theirs": (
        (
            "a: (g=0): rw=write\nfio: pid=0, err=28/file:filesetup.c:240, func=write, error=No space left on device\n"
            "Run status group 0 (all jobs):\nmatrix: laying files out:\n"
        ),
        "laying files out: fio: pid=0, err=28/file:filesetup.c:240, func=write, error=No space left on device",
    ),
    "only a pointer": ("Try 'mount --help' for more information.\n", "Try 'mount --help' for more information."),
    "nothing": ("\n  \n", "no message"),
}


@pytest.mark.parametrize("name", SAID)
def test_the_most_specific_line_is_the_reason(name: str) -> None:
    output, said = SAID[name]
    assert evidence(output) == said


@pytest.mark.parametrize("name", [name for name in SAID if "only" not in name and name != "nothing"])
def test_earlier_success_does_not_hide_the_message(name: str) -> None:
    output, said = SAID[name]
    before = "mke2fs 1.47.0\nvda: 0 2097152 linear 8:0 2048\nmdadm: array /dev/md/matrix-0 started.\n"
    assert evidence(before + output) == said


@given(st.text())
def test_each_output_gives_a_reason_on_one_line(output: str) -> None:
    said = evidence(output)
    assert said
    assert len(said) <= 300
    assert len(said.splitlines()) == 1


FIO = {
    "fio: engine libaoi not loadable\nfio: failed to load engine\n": "fio failed: engine libaoi not loadable",
    "": "fio failed: fio printed no JSON (exit status 1)",
    'fio: io_u error on file /dev/vda: Input/output error: read offset=0, buflen=4096\n{\n  "jobs": [{"error": 5}]\n}\n': (
        "fio failed: fio job '?' failed with EIO (Input/output error): io_u error on file /dev/vda: Input/output "
        "error: read offset=0, buflen=4096"
    ),
    '{\n  "jobs": [{"error": 5}]\n}\n': "fio failed: fio job '?' failed with EIO (Input/output error)",
}


@pytest.mark.parametrize("output", FIO)
def test_the_message_of_fio_is_in_the_reason(output: str) -> None:
    assert finding([StepResult("measure", 1, output, 0.0)], WORK).reason == FIO[output]
