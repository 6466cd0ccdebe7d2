"""Every figure, one after the other: `python -m bench`."""

import subprocess
import sys

for name in ("help", "expand", "reports", "cells", "boot", "parallel"):
    print(f"== bench.{name}", flush=True)
    subprocess.run([sys.executable, "-m", f"bench.{name}"], check=True)
