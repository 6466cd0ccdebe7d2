from __future__ import annotations

import subprocess
import sys


def test_numpy_is_imported_at_its_first_use() -> None:
    script = (
        "import sys; from matrix_runner.statistics import correlated_changes, screening, simulated_race;"
        "from matrix_runner.statistics.changes import read_history; assert 'numpy' not in sys.modules;"
        "print(read_history([1.0] * 9)); sys.exit('numpy' not in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0
