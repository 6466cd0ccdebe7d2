"""Every figure, one after the other, or those that are named: `python -m bench [cells boot …]`."""

import argparse
import subprocess
import sys

ALL = (
    "help",
    "expand",
    "reports",
    "explore",
    "history",
    "large",
    "coverage",
    "guidelines",
    "cells",
    "boot",
    "parallel",
    "disks",
    "slow",
    "monitor",
    "backends",
)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *ALL], default=[], metavar="NAME", help=", ".join(ALL))
    for name in parser.parse_args().names or ALL:
        print(f"== bench.{name}", flush=True)
        subprocess.run([sys.executable, "-m", f"bench.{name}"], check=True)


if __name__ == "__main__":
    main()
