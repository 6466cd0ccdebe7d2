"""Screenshots of the kept report, light and dark, by Chromium."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from docs.pictures.record import FOLDER, REPORT

_PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
#: The window, and pixels of the picture per pixel of it: text stays readable when a page makes the picture smaller.
_WINDOW, _SCALE = "1120,1130", 1.25
#: The picture begins with the answer; the facts about host and run are above it.
_CROP = "<style>dl, header p, .remarks { display: none; }</style></head>"
#: Values of Chromium's setting.
MODES = {"report.png": 1, "report-dark.png": 0}


def chromium() -> str | None:
    return next(filter(None, map(shutil.which, _PROGRAMS)), None)


def main() -> None:
    program = chromium()
    if program is None:
        print("no Chromium here, so the screenshots stay as they are: `apt-get install chromium` brings it")  # noqa: T201
        return
    for name, mode in MODES.items():
        with tempfile.TemporaryDirectory() as folder:
            page = Path(folder) / "report.html"
            page.write_text(REPORT.read_text().replace("</head>", _CROP))
            command = [
                program,
                "--headless=new",
                "--no-sandbox",
                "--disable-gpu",
                "--hide-scrollbars",
                f"--user-data-dir={folder}/profile",
                f"--blink-settings=preferredColorScheme={mode}",
                f"--window-size={_WINDOW}",
                f"--force-device-scale-factor={_SCALE}",
                f"--screenshot={FOLDER / name}",
                page.as_uri(),
            ]
            subprocess.run(command, check=True, capture_output=True, timeout=120)
