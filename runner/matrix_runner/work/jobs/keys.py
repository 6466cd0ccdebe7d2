"""The keys of a workload of several jobs: `job` and `set` for a job file of fio, and `jobs` for a map of jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema, create_model

from matrix_runner.base.axes import as_tuple, axes_of, axis_type, scalar_or_list
from matrix_runner.base.model import ChangeSchema, Model
from matrix_runner.work.fio.keys import WorkloadKeys
from matrix_runner.work.fio.options import OpenValue
from matrix_runner.work.jobs.file import JobFile, is_global


def _read(value: object) -> object:
    files = as_tuple(value)
    if not all(isinstance(one, JobFile) for one in files):
        raise ValueError("write the path of a job file of fio, relative to this file, like jobs/db.fio")
    return files


def _no_global(name: str) -> str:
    if is_global(name):
        raise ValueError("fio takes a name that begins with `global` for common options")
    return name


_Files = Annotated[
    tuple[Any, ...],
    BeforeValidator(_read),
    WithJsonSchema({"type": "array", "items": {"type": "string"}}),
    ChangeSchema(scalar_or_list),
]
_Values = Annotated[tuple[OpenValue, ...], BeforeValidator(as_tuple), ChangeSchema(scalar_or_list)]
#: An option, or `section.option`. A section may have any characters.
_Key = Annotated[str, Field(pattern=r"^([^\n\r]+\.)?[A-Za-z][A-Za-z0-9_-]*$", max_length=300)]

#: Without a dot, which separates it from its figures.
_JobName = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_+-]*$", max_length=80), AfterValidator(_no_global)]

if TYPE_CHECKING:
    OneJob = Model
else:
    OneJob = create_model(
        "JobOfSeveral",
        __base__=axes_of(WorkloadKeys),
        __doc__="One of several jobs that run at the same time.",
        rw=(
            axis_type(WorkloadKeys.model_fields["rw"]) | None,
            Field(None, description="fio's `rw`, if it is not beside `jobs`"),
        ),
    )


class SeveralJobs(Model):
    job: _Files | None = Field(None, description="a job file of fio, relative to the matrix; its targets are replaced")
    set: dict[_Key, _Values] | None = Field(
        None,
        description="options of the job file: `option` for all its jobs, or `section.option` for one; lists are axes",
    )
    jobs: Annotated[dict[_JobName, OneJob], Field(min_length=1, max_length=100)] | None = Field(
        None,
        description="jobs that run at the same time, each a workload by its name; keys beside it are for all of them",
    )
