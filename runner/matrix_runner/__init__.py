"""matrix: a declarative test-matrix runner around fio."""

__version__ = "0.2.0"
