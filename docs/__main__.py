"""Build the documentation site in build/docs: `./bootstrap docs`, with `--pictures` after drawing its pictures again."""

import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).parents[1]

if __name__ == "__main__":
    from docs import generate

    if "--pictures" in sys.argv[1:]:
        from docs.pictures import draw

        draw.main()
    generate.main()
    target = TOP / "build" / "docs"
    sys.exit(subprocess.call([sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", str(TOP / "docs"), str(target)]) or print(f"{target}/index.html"))
