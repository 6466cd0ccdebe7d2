# Some versions print it on the standard error.
perf lock contention --input profile-locks.data --entries 10 2>&1
