"""`matrix site` and `matrix chart`: pages/site.py and pages/charts.py draw."""

import shutil
import tempfile
from functools import cache
from pathlib import Path

import click

from matrix_runner.base.errors import BadInput, HarnessBroken
from matrix_runner.base.text import Pseudonyms
from matrix_runner.cli.options import FILE, TO_FOLDER, Words, only, open_page, opens, run_argument
from matrix_runner.cli.screen import echo, slow_start
from matrix_runner.cli.store_options import Source, open_store, select_or_default, select_runs, source

_EPILOG = """\b
Examples:
  matrix site                              all runs, to public/index.html
  matrix site 'nightly-*' --to /srv/www/nights
  matrix site --with-hosts --open          for your own eyes: names of hosts and disks stay

\b
Names of runs: see `matrix results --help`.
"""


@click.command("site", epilog=_EPILOG)
@run_argument("runs", nargs=-1)
@click.option(
    "--to",
    type=TO_FOLDER,
    default="public",
    show_default=True,
    help="The folder of the site: new, empty, or with an earlier site, which is replaced.",
)
@click.option("--with-hosts", is_flag=True, help="Do not replace names of hosts, disks and users, addresses and paths.")
@opens
@source
def command(runs: Words, to: Path, with_hosts: bool, opens: bool | None, source: Source) -> None:
    """Write a static site of RUNS: results, history, verdicts, and a page that compares any two runs.

    Without RUNS, all runs, but not excluded ones, nor synthetic ones beside measured ones. The site needs no server.
    """
    from matrix_runner.pages.site import Site, write_site
    from matrix_runner.records.observe import readable_runs
    from matrix_runner.session.bug_report import known_names

    with open_store(source) as shared:
        among, left_out = select_or_default(shared, runs)
        if not among:
            raise BadInput("there is no run yet", resolution="`matrix run MATRIX` starts one")
        ids = {run.id for run in among}
        folders = [one for one in readable_runs(source.results)[0] if one.manifest.id in ids]
        hosts = {run.host for run in among} | {str(host) for (host,) in shared.trials(("host",), ids) if host}
        pseudonyms = Pseudonyms(known_names(folders, hosts))
        replace = str if with_hosts else cache(pseudonyms.replace)
        site = Site(shared, among, source.results, replace)
        count = write_site(to, lambda: site.files(to, slow_start.begin))
    if left_out:
        echo(f"note: {left_out.removesuffix('--runs')}RUNS", err=True)
    replaced = "names of hosts stay" if with_hosts else f"replaced: {pseudonyms.summary}"
    echo(f"{to}/index.html: {len(among):,} run{'s' * (len(among) != 1)}, {count:,} files; {replaced}")
    open_page(to / "index.html", opens)


_CHART_EPILOG = """\b
Examples:
  matrix chart --metric read_iops --to iops.svg                      the latest run
  matrix chart nightly~1 --metric read_lat_p99 --to tails.png --title 'Tails of our arrays'
  matrix chart latest --metric write_bw --only layout=raid5 --to raid5.svg

\b
Names of runs and figures: see `matrix results --help`.
"""
_MOST = 20  # cells
_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@click.command("chart", epilog=_CHART_EPILOG)
@run_argument("run", default="latest")
@only
@click.option("--metric", required=True, help="The figure, such as read_bw, write_iops or read_lat_p99.")
@click.option("--title", help="The title of the chart.  [default: figure and matrix]")
@click.option("--to", required=True, type=FILE, help="The file: .svg, or .png, which needs Chromium.")
@source
def chart_command(run: str, only: Words, metric: str, title: str | None, to: Path, source: Source) -> None:
    """Draw one figure of the cells of RUN for a slide: 16:9, with intervals, title, run and host."""
    from matrix_runner.answers.stored_samples import unit_of
    from matrix_runner.base.files import write_output
    from matrix_runner.cli.results import check_jobs, parse_metrics
    from matrix_runner.pages.charts import chart
    from matrix_runner.pages.html import render_page
    from matrix_runner.pages.stored import Reader

    if to.suffix not in {".svg", ".png"}:
        raise BadInput(f"--to {to}: no picture has this suffix", resolution="use .svg or .png")
    metrics = parse_metrics([metric])
    with open_store(source) as shared:
        among = select_runs(shared, (run,))[:1]
        check_jobs(metrics, shared, among)
        found = Reader(shared, metrics, source.results, only=only).read(among)
    side = metrics[0].rpartition(".")[2].partition("_")[0]
    lines = [(one.cell.name, {side: known}) for one in found if (known := one.estimate(metrics[0]))]
    drawn = chart(title or "", unit_of(metrics[0]), lines, most=_MOST)
    if not drawn:
        raise BadInput(f"no cell of {among[0].name} has {metric}", resolution="`matrix results` shows its figures")
    shown, trials = among[0], max(one.measured for one in found)
    about = (
        f"{shown.name}, {shown.started[:10]}: {shown.machine}{f' on {shown.host}' if shown.host else ''}",
        f"Up to {trials} trials of each cell, with intervals of {shown.confidence * 100:g} % confidence"
        + f"; {drawn.left:,} more cells are not shown" * bool(drawn.left),
    )
    title = title or f"{shown.matrix}: {metrics[0]}"
    picture = render_page("slide.svg.j2", chart=drawn, title=title, about=about, synthetic=shown.synthetic)
    write_output(to, picture if to.suffix == ".svg" else _as_png(picture))
    echo(f"written to {to}", err=True)


def _as_png(picture: bytes) -> bytes:
    from matrix_runner.base.process import run

    program = next(filter(None, map(shutil.which, _BROWSERS)), None)
    if program is None:
        raise BadInput(
            "a .png needs Chromium, which is not installed", resolution="install chromium, or use --to x.svg"
        )
    with tempfile.TemporaryDirectory() as folder:
        drawn, shot = Path(folder) / "chart.svg", Path(folder) / "chart.png"
        drawn.write_bytes(picture)
        words = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=1600,900")
        done = run([program, *words, f"--user-data-dir={folder}", f"--screenshot={shot}", drawn.as_uri()], timeout=120)
        if not shot.is_file():
            raise HarnessBroken(f"{program} made no picture", details=done.stderr, resolution="use --to x.svg")
        return shot.read_bytes()
