"""Several jobs of fio at a time: a job file, or a map of jobs."""
