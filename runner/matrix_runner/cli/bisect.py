"""`matrix bisect`: for the odds see decide/bisect.py, for the run session/version_search.py."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from matrix_runner.base.errors import BadInput
from matrix_runner.base.extras import require_statistics
from matrix_runner.base.quantities import parse_percent
from matrix_runner.cli import options
from matrix_runner.cli.run import follow
from matrix_runner.cli.screen import echo

_EPILOG = """\b
Examples:
  matrix bisect nas.yaml --along tune.readahead --good 4MiB --bad 64KiB
  matrix bisect nas.yaml --only 'layout=raid5,rw=randwrite' --along kernel --good debian-12 --bad ./new/bzImage
  matrix bisect nas.yaml --along md.chunk --good 64KiB --bad 1MiB --metric write.lat_p99
  matrix bisect nas.yaml --along kernel --good debian-12 --bad debian-13 --confidence 99% --budget 2h
  matrix bisect nas.yaml --between latest~good latest --fetch
  matrix bisect nas.yaml --kernels ~/kernels --good 6.12 --bad 7.0
  matrix bisect nas.yaml --on local --kernels 6.12.43,6.12.57,6.17.8
  matrix bisect nas.yaml --fetch --good 6.12.117 --bad 7.3.4
  matrix bisect nas.yaml --fetch --good 6.12.117 --bad 7.3.4 --git ~/linux --build 'make ... && cp ... $OUT'
  matrix bisect nas.yaml --git ~/mdadm --good mdadm-4.2 --bad main --build 'make && make install DESTDIR=$OUT'
  matrix bisect nas.yaml --fetch --good 6.12.117 --bad 7.3.4 --cluster tls://lab:8786

\b
Each round measures good, bad and up to three candidates in random order. The search ends when one version has the
wanted odds. With several selected cells for each version, the figure is their geometric mean. On a cluster, one host
measures all versions.

\b
Exit codes: 0 found, 1 not found (good and bad are equal, or bad is better), 3 good or bad has no figures, 4 cannot
tell (the budget is used up, the host has to boot another kernel, the noise is too large, or there is more than one
change).
"""
_PERCENT = options.Parsed("percent", parse_percent)


def _bisect_options(
    git: Path | None, build: str | None, paths: tuple[str, ...], kernels: Path | None, fetch: bool, **values: Any
) -> Any:
    from matrix_runner.session.versions import BisectOptions, WantedVersions

    versions = WantedVersions(git, build, paths, kernels, fetch)
    if len(listed := versions.releases) > 1:
        values |= {"good": values["good"] or listed[0], "bad": values["bad"] or listed[-1]}
    return BisectOptions(**values, versions=versions)


_search = options.combined(
    "bisect",
    _bisect_options,
    along=click.option(
        "--along", metavar="AXIS", default="kernel", show_default=True, help="The axis: of numbers, or kernel."
    ),
    good=click.option("--good", metavar="VALUE", help="As it should be: a value of the axis, a kernel or a commit."),
    bad=click.option("--bad", metavar="VALUE", help="Worse: a value of the axis, a kernel or a commit."),
    metric=click.option("--metric", help="The figure, JOB.read.iops for one job.  [default: bandwidth]"),
    confidence=click.option(
        "--confidence", type=_PERCENT, default="95%", show_default=True, help="The odds that end the search."
    ),
    git=click.option("--git", metavar="FOLDER", type=options.PATH, help="Search the commits of this repository."),
    build=click.option("--build", metavar="COMMAND", help="Makes one: a kernel, modules or programs below $OUT."),
    paths=click.option("--paths", metavar="PATH", multiple=True, help="Try commits first that change it. Repeatable."),
    kernels=click.option(
        "--kernels",
        metavar="FOLDER|RELEASE,…",
        type=options.PATH,
        help="Search its folders with a bzImage each; on local, ssh and container, these installed kernels, from good "
        "to bad.  [default there: all installed ones]",
    ),
    fetch=click.option(
        "--fetch",
        is_flag=True,
        help="Search the kernels that Debian's mirror has; with --git, the commits between two of them after that.",
    ),
    skip=click.option(
        "--skip", metavar="VERSION", multiple=True, help="A version that does not boot: never bad. Repeatable."
    ),
    smallest=click.option(
        "--smallest", type=_PERCENT, default="1%", show_default=True, help="Smaller differences count as none."
    ),
)


@click.command("bisect", epilog=_EPILOG)
@options.matrix_file
@options.only
@_search
@click.option(
    "--between",
    nargs=2,
    metavar="RUN RUN",
    help="Two stored runs, the good one first: their kernels are good and bad, and the cell that became slower the "
    "most is measured.",
)
@options.on_host
@options.kernel
@options.templates
@options.results
@options.store
@options.cluster
@options.wanted_tags
@options.budget
@options.passthrough
@options.hosts
@options.destroy
@click.option("--fresh", is_flag=True, help="Start a new search, even if one is interrupted.")
@click.option("--quiet", is_flag=True, help="Show only errors and the answer.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line on standard output.")
def command(*, quiet: bool, as_json: bool, between: tuple[str, str] | None, **values: Any) -> None:
    """Find the version at which a figure became worse: a value of an ordered axis, or a kernel.

    The same command continues a search that was interrupted.
    """
    require_statistics("matrix bisect")
    if between:
        values |= _between(between, values)
    if not (values["bisect"].good and values["bisect"].bad):
        raise BadInput(
            "a search begins between a good and a bad version",
            resolution="name them by --good and --bad, or two stored runs by --between",
        )
    follow(values, quiet=quiet, as_json=as_json)


def _between(runs: tuple[str, str], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that two stored runs decide, and say in what the runs differ."""
    from matrix_runner.answers.pairs import differences
    from matrix_runner.cli.compare import ComparisonRequest, compare_runs
    from matrix_runner.cli.store_options import Source
    from matrix_runner.session.version_search import begin_between
    from matrix_runner.space.declared_files import AcceptedFiles

    wanted, source = values["bisect"], Source(values["results"], values["store"])
    metrics = (wanted.metric,) if wanted.metric else ()
    done = compare_runs(ComparisonRequest(*runs, source, AcceptedFiles(), only=values["only"], metrics=metrics))
    for name, *ends in differences(done.a, done.b):
        echo(f"{name}: {' → '.join(ends)}", err=True)
    begun, cell = begin_between(runs, done, wanted, is_chosen=bool(values["only"]))
    if cell is None:
        return {"bisect": begun}
    only = begun.condition_of(cell)
    echo(f"searching with {cell.name}, which became slower the most: --only '{only}'", err=True)
    return {"bisect": begun, "only": (only,)}
