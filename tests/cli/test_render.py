"""`matrix render`: scripts and jobs as in a run."""

from pathlib import Path

from matrix_runner.records.run_folder import run_folders
from tests.support.command import Matrix
from tests.support.matrices import SMALL


def test_render(matrix: Matrix, tmp_path: Path) -> None:
    result = matrix(
        "render", "small.yaml", "raid5/chunk=16KiB/*", "--to", "out", "--disks", "/dev/a,/dev/b,/dev/c,/dev/d"
    )
    assert result.stdout == "2 cells written to out/\n"
    folder = tmp_path / "out/raid5/chunk=16KiB/work/rw=read"
    assert sorted(path.name for path in folder.iterdir()) == [
        "1-set-up.sh", "2-tune.sh", "3-verify.sh", "4-measure.sh", "5-tear-down.sh", "activate.sh", "trial-1",
    ]  # fmt: skip
    assert "members=(/dev/a /dev/b /dev/c /dev/d)" in (folder / "1-set-up.sh").read_text()
    assert matrix("render", "small.yaml", "nonsense").returncode == 2
    assert matrix("render", "small.yaml", "--disks", "/dev/a").returncode == 2


def test_rendered_scripts_equal_those_of_a_run(matrix: Matrix, tmp_path: Path) -> None:
    """On a fresh machine's disks; those that somebody names are not taken to be zeroed."""
    assert matrix("render", "small.yaml", "--on", "dry").returncode == 0
    matrix("run", "--on", "dry", "small.yaml")
    (folder,) = run_folders(tmp_path / "results")
    rendered = [path for path in (tmp_path / "rendered" / "small").rglob("*") if path.is_file()]
    assert len(rendered) == 4 * 7
    for path in rendered:
        assert path.read_text() == (folder / "cells" / path.relative_to(tmp_path / "rendered" / "small")).read_text()
    assert all("--assume-clean" in path.read_text() for path in rendered if path.name == "1-set-up.sh")
    matrix("render", "small.yaml", "--to", "own", "--disks", "/dev/a,/dev/b,/dev/c,/dev/d")
    assert not any("--assume-clean" in path.read_text() for path in (tmp_path / "own").rglob("1-set-up.sh"))


def test_cells_of_kernels_with_odd_paths_are_rendered_below_the_folder(matrix: Matrix, tmp_path: Path) -> None:
    (tmp_path / "odd.yaml").write_text(SMALL + "machine: {kernel: [.., ~/bz, x/a/b, x/a_b]}\n")
    assert matrix("render", "odd.yaml", "--to", "inside/out").stdout == "16 cells written to inside/out/\n"
    assert {path.name for path in tmp_path.iterdir()} == {"small.yaml", "odd.yaml", "inside"}
    assert [path.name for path in (tmp_path / "inside").iterdir()] == ["out"]
    assert len(list((tmp_path / "inside").rglob("1-set-up.sh"))) == 16


def test_commands_that_write_each_cell_refuse_a_large_matrix_and_plan_counts_it(matrix: Matrix, tmp_path: Path) -> None:
    depths, sizes = (", ".join(f"{4 * number}{unit}" for number in range(1, 501)) for unit in ("", "KiB"))
    large = SMALL.replace("bs: 4KiB", f"bs: 4KiB, iodepth: [{depths}]") + f"tune: {{readahead: [{sizes}]}}\n"
    (tmp_path / "large.yaml").write_text(large)
    assert "1,000,000" in matrix("plan", "--on", "dry", "large.yaml").stdout
    for command in (("plan", "--cells"), ("plan", "--format", "json"), ("run",), ("render",)):
        result = matrix(*command, "--on", "dry", "large.yaml")
        assert result.returncode == 2
        assert "1,000,000 cells are too many to " in result.stderr
        assert "select some with --only or --shard" in result.stderr
    few = matrix("render", "--only", "readahead=4KiB", "large.yaml", "no such cell")
    assert "no cell is called no such cell" in few.stderr
    many = matrix("render", "--only", "readahead=4KiB", "large.yaml", "*")
    assert "2,000 cells are called so: at most 500" in many.stderr
