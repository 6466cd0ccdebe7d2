"""Build the documentation site in build/docs; with `--pictures`, draw the pictures again before."""

import subprocess
import sys
from pathlib import Path

from docs import generate

TOP = Path(__file__).parents[1]
SITE = TOP / "build" / "docs"


def main() -> int:
    if "--pictures" in sys.argv[1:]:
        from docs.pictures import draw

        draw.main()
    generate.main()
    status = subprocess.call([sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", str(TOP / "docs"), str(SITE)])
    if status == 0:
        sys.stdout.write(f"{SITE}/index.html\n")
    return status


if __name__ == "__main__":
    sys.exit(main())
