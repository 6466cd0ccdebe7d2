"""A plain workload of fio."""
