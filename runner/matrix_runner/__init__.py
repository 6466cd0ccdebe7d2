"""matrix: a declarative test-matrix runner around fio."""
