"""The files of a workload in a file system."""

from __future__ import annotations

from dataclasses import dataclass

#: The default for all jobs together; half of the file system if that is less.
DEFAULT_SIZE = 2**30


@dataclass(frozen=True, slots=True)
class FileSet:
    """The number and size of the files of each job."""

    jobs: int
    count: int
    each: int

    @property
    def span(self) -> int:
        return self.count * self.each

    @property
    def total(self) -> int:
        return self.jobs * self.span

    @property
    def name(self) -> str:
        """Return a name that differs for every shape."""
        return f"{self.jobs}x{self.count}x{self.each}"
