perf lock record --quiet --all-cpus --no-buildid --output profile-locks.data >profile-locks.log 2>&1 &
