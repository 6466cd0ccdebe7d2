"""matrix: a declarative test-matrix runner around fio."""

__version__ = "0.1.0"
