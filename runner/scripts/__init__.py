"""Turn cells into bash scripts and fio jobs, and into the values that their read-back must find."""
