perf record --quiet --all-cpus --freq 199 --no-buildid --output profile-cpu.data >profile-cpu.log 2>&1 &
