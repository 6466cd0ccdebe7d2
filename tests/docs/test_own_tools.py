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

from runner.results.store import SharedStore
from runner.results.store_sync import bring_up_to_date
from runner.results.store_tables import address_of
from runner.results.views import views_of_store
from tests.results import past, server
from tests.support.pages import DOCS, blocks

if TYPE_CHECKING:
    from collections.abc import Iterator

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
    head = views_of_store()[view].partition(" FROM ")[0]
    return {part.split()[-1].rpartition(".")[2] for part in re.split(r",\s", head)}


def test_the_queries_name_columns_of_the_views() -> None:
    """Also those for DuckDB, which runs at night."""
    named = {word for line in one_liners() for word in re.findall(r"\b(?:total|read|write)_\w+", line)}
    assert named - {"read_only", "read_csv", "read_sql", "read_database", "read_lat_p"} <= columns_of("v_cells")


def queries_of_board() -> dict[str, str]:
    found = {one["name"]: one["query"] for one in BOARD["templating"]["list"] if one["type"] == "query"}
    return found | {panel["title"]: panel["targets"][0]["rawSql"] for panel in BOARD["panels"]}


@pytest.fixture
def database() -> Iterator[str]:
    if server.MISSING:
        pytest.skip(server.MISSING)
    with server.private_server() as running:
        yield running.database("board")


def test_the_board_for_grafana_works_on_a_store_in_postgresql(database: str, tmp_path: Path) -> None:
    past.recorded(tmp_path, past.TRIALS)
    address = address_of(database, tmp_path)
    with SharedStore.open(address) as store, store._engine.connect() as connection:
        bring_up_to_date(store, tmp_path)
        for statement in grants():
            connection.execute(sa.text(statement.replace("FOR ROLE lab", "FOR ROLE current_user")))
        connection.execute(sa.text("SET ROLE grafana"))
        values = {name: set(connection.scalars(sa.text(f"select {name} from v_cells"))) for name in variables()}  # noqa: S608
        for title, query in queries_of_board().items():
            rows = connection.execute(sa.text(as_grafana_asks(query, values))).mappings().all()
            assert rows, title
            if "time" in rows[0]:
                assert list(rows[0]) == ["time", "metric", "value"], title


def grants() -> list[str]:
    """Return the commands of the page that make the role of Grafana."""
    (line,) = (line for line in PAGE.read_text().splitlines() if "CREATE ROLE" in line)
    return re.findall(r'-c "([^"]+)"', line)


def variables() -> list[str]:
    return [one["name"] for one in BOARD["templating"]["list"] if one["type"] == "query"]


def as_grafana_asks(query: str, values: dict[str, set[Any]]) -> str:
    """Replace the macros and variables as Grafana does."""
    query = re.sub(r"\$__timeFilter\(([^)]*)\)", r"\1 BETWEEN '2026-01-01' AND '2027-01-01'", query)
    for name, chosen in values.items():
        query = query.replace(f"${name}", ", ".join(f"'{value}'" for value in sorted(chosen)))
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
