import subprocess
import sys


def test_numpy_is_imported_at_its_first_use() -> None:
    script = (
        "import sys; from matrix_runner.statistics import correlated_changes, mixing, race, screening;"
        "from matrix_runner.statistics.changes import cell_levels; assert 'numpy' not in sys.modules;"
        "print(cell_levels([{1: 2.0, 2: 2.0}, {1: 4.0}])); sys.exit('numpy' not in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0
