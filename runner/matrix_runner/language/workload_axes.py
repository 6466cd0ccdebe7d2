"""The keys of a workload as written: those of fio and of all other kinds of work. A list is an axis."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, ConfigDict, Field, ValidationInfo, create_model
from pydantic_core import PydanticCustomError

from matrix_runner.base.axes import axis_type
from matrix_runner.language.find import Searched
from matrix_runner.work.fio.keys import WorkloadKeys
from matrix_runner.work.kinds import KINDS

_INSTEAD_OF_RW = ("preset", "job", "jobs", "sync_action", "replay")


def _needed(value: Any, info: ValidationInfo) -> Any:
    # `rw` is required without a preset or jobs. An invalid one is absent from `data` and has its own error.
    if value is None and all(info.data.get(other, "") is None for other in _INSTEAD_OF_RW):
        raise PydanticCustomError("missing", "Field required")
    return value


if TYPE_CHECKING:
    WorkloadAxes = Searched
else:
    WorkloadAxes = create_model(
        "AnyWorkload",
        # The fields of the last base come first, so `preset` and `job` are validated before `rw`.
        __base__=(Searched, *(keys for kind in reversed(KINDS.values()) for keys in kind.keys)),
        __doc__=WorkloadKeys.__doc__,
        rw=(
            Annotated[axis_type(WorkloadKeys.model_fields["rw"]) | None, AfterValidator(_needed)],
            Field(default=None, validate_default=True),
        ),
    )
    WorkloadAxes.model_config = ConfigDict(
        **WorkloadAxes.model_config,
        json_schema_extra={"anyOf": [{"required": [key]} for key in ("rw", *_INSTEAD_OF_RW)]},
    )
