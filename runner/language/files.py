"""The files that a workload works on in a file system."""

from __future__ import annotations

from dataclasses import dataclass

#: Where no size is given: so much for all jobs together, or half of the file system if that is less.
DEFAULT_SIZE = 2**30


@dataclass(frozen=True, slots=True)
class FileSet:
    """So many files for each job, all of one size."""

    jobs: int
    count: int
    each: int

    @property
    def span(self) -> int:
        """Bytes that one job goes over."""
        return self.count * self.each

    @property
    def total(self) -> int:
        """Bytes of all files of all jobs."""
        return self.jobs * self.span

    @property
    def name(self) -> str:
        """What tells them from files of another shape."""
        return f"{self.jobs}x{self.count}x{self.each}"
