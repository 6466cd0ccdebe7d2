"""`matrix` with a dry machine whose trials take MATRIX_BENCH_SECONDS, so that there is time to kill their processes.

MATRIX_BENCH_SECONDS=2 python -m bench.waiting worker --cluster tcp://127.0.0.1:8786
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING

from matrix_runner.cli import main
from matrix_runner.machines.dry import DryRig

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from matrix_runner.machines.base import Step, StepResult

COMMAND = (sys.executable, "-m", "bench.waiting")
SECONDS = "MATRIX_BENCH_SECONDS"
_run = DryRig.run


async def run(rig: DryRig, steps: Sequence[Step], **limits: Any) -> list[StepResult]:
    if any(step.name == "measure" for step in steps):
        await asyncio.sleep(float(os.environ.get(SECONDS, "0")))
    return await _run(rig, steps, **limits)


if __name__ == "__main__":
    DryRig.run = run  # type: ignore[method-assign, assignment]
    if sys.argv[1] == "worker":
        from matrix_runner.carry.cluster import seats

        seats.COMMAND = (*COMMAND, "batch")
    main()
