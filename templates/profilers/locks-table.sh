perf lock contention --input profile-locks.data --entries 10 2>/dev/null
