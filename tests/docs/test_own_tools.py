"""The page about other tools: its queries, its board and its notebook work on real data."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from matrix_runner.records.address import address_of
from matrix_runner.records.store import SharedStore
from matrix_runner.records.store_sync import bring_up_to_date
from matrix_runner.records.versions import views_of
from tests.records import past, server
from tests.support.pages import DOCS, blocks

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tests.support.command import Call

PAGE = DOCS / "how-to" / "use-your-own-tools.md"
OWN = DOCS / "own-tools"
BOARD = json.loads((OWN / "grafana.json").read_text())
REQUIREMENTS = Path(__file__).with_name("own_tools.txt")
_OUT_OF_REACH = re.compile("Failed to establish|Temporary failure|No matching distribution|Network is unreachable")


def matrix() -> str:
    return next(block.text for block in blocks(PAGE.read_text()) if block.language == "yaml")


def one_liners() -> list[str]:
    block = next(block for block in blocks(PAGE.read_text()) if "SQLite" in block.text)
    return [line for line in block.text.splitlines() if not line.startswith("#")]


@pytest.fixture
def store(call: Call, tmp_path: Path) -> Path:
    (tmp_path / "nas.yaml").write_text(matrix())
    assert call("run", "--on", "dry", "nas.yaml").status == 0
    return tmp_path / "results" / "store.db"


def test_the_queries_of_the_page_work_in_sqlite(store: Path) -> None:
    queries = [found for line in one_liners() for found in re.findall(r"select [^(][^\"']*? from v_\w+[^\"']*", line)]
    assert len(queries) == 3
    with closing(sqlite3.connect(store)) as connection:
        for query in queries:
            assert connection.execute(query).fetchall(), query


def columns_of(view: str) -> set[str]:
    head = views_of(runs=True)[view].partition(" FROM ")[0]
    return {part.split()[-1].rpartition(".")[2] for part in re.split(r",\s", head)}


def test_the_queries_name_columns_of_the_views() -> None:
    """Also those for DuckDB, which runs at night."""
    named = {word for line in one_liners() for word in re.findall(r"\b(?:total|read|write)_\w+", line)}
    assert named - {"read_only", "read_csv", "read_sql", "read_database", "read_lat_p"} <= columns_of("v_cells")


def queries_of_board() -> dict[str, str]:
    found = {one["name"]: one["query"] for one in BOARD["templating"]["list"] if one["type"] == "query"}
    return found | {panel["title"]: panel["targets"][0]["rawSql"] for panel in BOARD["panels"]}


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[SharedStore]:
    """A store in PostgreSQL without runs, which the role of Grafana may read."""
    if server.MISSING:
        pytest.skip(server.MISSING)
    with server.private_server() as running, SharedStore.open(address_of(running.database("board"), tmp_path)) as store:
        with store._engine.begin() as connection:
            for statement in grants():
                connection.execute(sa.text(statement.replace("FOR ROLE lab", "FOR ROLE current_user")))
        yield store


def rows_of(store: SharedStore, query: str, values: Mapping[str, str]) -> Sequence[sa.RowMapping]:
    with store._engine.connect() as connection:
        connection.execute(sa.text("SET LOCAL ROLE grafana"))
        return connection.execute(sa.text(as_grafana_asks(query, values))).mappings().all()


@pytest.mark.parametrize("is_chosen", [False, True])
def test_the_board_for_grafana_works_on_a_store_in_postgresql(
    shared: SharedStore, tmp_path: Path, is_chosen: bool
) -> None:
    past.recorded(tmp_path, past.TRIALS)
    bring_up_to_date(shared, tmp_path)
    chosen = {name: values_of(shared, name) for name in ALL} if is_chosen else {}
    for title, query in queries_of_board().items():
        rows = rows_of(shared, query, ALL | chosen)
        assert rows, title
        if "time" in rows[0]:
            assert list(rows[0]) == ["time", "metric", "value"], title


def values_of(store: SharedStore, name: str) -> str:
    found = rows_of(store, f"SELECT DISTINCT {name} FROM v_cells", {})  # noqa: S608
    return ",".join(f"'{row[name]}'" for row in found)


def test_the_board_has_no_error_on_a_store_without_runs(shared: SharedStore) -> None:
    """Variables have no values then, and `IN ()` is an error in PostgreSQL."""
    for title, query in queries_of_board().items():
        assert not rows_of(shared, query, ALL), title


def test_the_board_offers_no_values_of_synthetic_runs(shared: SharedStore, tmp_path: Path) -> None:
    past.recorded(tmp_path, past.TRIALS, synthetic=True, machine="dry")
    bring_up_to_date(shared, tmp_path)
    for title, query in queries_of_board().items():
        assert not rows_of(shared, query, ALL), title


def test_a_line_of_the_board_has_one_host(shared: SharedStore, tmp_path: Path) -> None:
    for number, host in enumerate(("lab1", "lab2"), 1):
        past.recorded(tmp_path, past.TRIALS, number, host=past.manifest().host.model_copy(update={"hostname": host}))
    bring_up_to_date(shared, tmp_path)
    for title, query in queries_of_board().items():
        if " AS metric" in query:
            of_both = {row["metric"] for row in rows_of(shared, query, ALL)}
            of_one = {row["metric"] for row in rows_of(shared, query, ALL | {"host": "'lab1'"})}
            assert of_both == {f"{host} {name}" for host in ("lab1", "lab2") for name in of_one}, title
            assert of_one <= {past.READ.name, past.MIXED.name}, title


def test_figures_in_tables_of_the_board_have_units(shared: SharedStore, tmp_path: Path) -> None:
    past.recorded(tmp_path, past.TRIALS)
    bring_up_to_date(shared, tmp_path)
    for panel in panels_of("table"):
        columns = rows_of(shared, panel["targets"][0]["rawSql"], ALL)[0].keys()
        expected = {one: unit for one in columns for part, unit in UNITS.items() if part in one}
        assert {one: unit for one in columns if (unit := unit_of(panel, one))} == expected, panel["title"]
        named = {one["matcher"]["options"] for one in overrides_of(panel) if one["matcher"]["id"] == "byName"}
        assert named <= set(columns), panel["title"]


#: The unit of Grafana for a column with this part in its name.
UNITS = {"_bw": "Bps", "_iops": "iops", "_lat_": "ns"}


def overrides_of(panel: dict[str, Any]) -> list[dict[str, Any]]:
    return list(panel["fieldConfig"]["overrides"])


def unit_of(panel: dict[str, Any], column: str) -> str | None:
    """Return the unit by the rules of Grafana: without slashes, an expression must match the whole name."""
    for one in overrides_of(panel):
        pattern = one["matcher"]["options"]
        is_partial = pattern.startswith("/") and pattern.endswith("/")
        found = re.search(pattern[1:-1], column) if is_partial else re.fullmatch(pattern, column)
        for setting in one["properties"] if found else []:
            if setting["id"] == "unit":
                return str(setting["value"])
    return None


def test_lines_of_the_board_are_named_by_their_metric() -> None:
    """With only `time`, `metric` and a value, Grafana names a line by `metric`, and removes that label."""
    assert panels_of("timeseries")
    for panel in panels_of("timeseries"):
        assert "displayName" not in panel["fieldConfig"]["defaults"], panel["title"]


def grants() -> list[str]:
    """Return the commands of the page that make the role of Grafana."""
    (line,) = (line for line in PAGE.read_text().splitlines() if "CREATE ROLE" in line)
    return re.findall(r'-c "([^"]+)"', line)


#: What Grafana inserts for each variable while "All" is chosen.
ALL: dict[str, str] = {one["name"]: one["allValue"] for one in BOARD["templating"]["list"] if one["type"] == "query"}


def panels_of(kind: str) -> list[dict[str, Any]]:
    return [panel for panel in BOARD["panels"] if panel["type"] == kind]


def as_grafana_asks(query: str, values: Mapping[str, str]) -> str:
    """Replace the macros and variables as Grafana does."""
    query = re.sub(r"\$__timeFilter\(([^)]*)\)", r"\1 BETWEEN '2026-01-01' AND '2027-01-01'", query)
    for name, value in values.items():
        query = query.replace(f"${name}", value)
    assert "$" not in query
    return query.replace("::", "\\:\\:")


def test_panels_of_the_board_have_places_and_ids_of_their_own() -> None:
    places = [tuple(panel["gridPos"].values()) for panel in BOARD["panels"]]
    assert len(set(places)) == len({panel["id"] for panel in BOARD["panels"]}) == len(BOARD["panels"])
    assert {panel["targets"][0]["format"] for panel in BOARD["panels"]} == {"time_series", "table"}


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Install the tools in their locked versions. Return the environment in which they are found."""
    folder = tmp_path_factory.mktemp("tools")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    words = [str(folder / "bin/pip"), "install", "--quiet", "--require-hashes", "--requirement", str(REQUIREMENTS)]
    done = subprocess.run(words, capture_output=True, text=True)
    if _OUT_OF_REACH.search(done.stderr):
        pytest.skip("the packages cannot be fetched")
    assert done.returncode == 0, done.stderr
    # DuckDB fetches this extension by itself, from another host. A package has it, too.
    (extension,) = folder.rglob("*.duckdb_extension")
    there = folder / ".duckdb/extensions" / extension.parent.name / "linux_amd64"
    there.mkdir(parents=True)
    shutil.copy(extension, there)
    return {**os.environ, "HOME": str(folder), "PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "PYTHONPATH": ""}


@pytest.mark.exhaustive
@pytest.mark.timeout(1200)
def test_the_tools_read_the_views(store: Path, tools: dict[str, str]) -> None:
    folder = store.parents[1]
    for line in [*one_liners(), f"python3 {OWN / 'notebook.py'} --store results/store.db"]:
        done = subprocess.run(["bash", "-c", line], cwd=folder, env=tools, capture_output=True, text=True)
        assert done.returncode == 0, f"{line}\n{done.stderr}"
        assert "notebook" in line or "4KiB" in done.stdout or "far" in done.stdout, f"{line}\n{done.stdout}"


@pytest.mark.exhaustive
@pytest.mark.timeout(1200)
def test_datasette_shows_the_views(store: Path, tools: dict[str, str]) -> None:
    words = ["datasette", str(store), "--get", "/store/v_cells.json?_shape=array&_size=max"]
    done = subprocess.run(words, env=tools, capture_output=True, text=True, check=True)
    assert len(json.loads(done.stdout)) == 16
