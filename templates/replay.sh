# The trace as iologs of fio, one for each job. A wait is in milliseconds since the start of fio.
trace=trace.txt
if [[ ! -e $trace ]]; then trace=../trace.txt; fi  # by hand
awk -v jobs={{ work.iodepth }} '
  NR <= jobs { print "fio version 2 iolog\ntrace add\ntrace open" >("replay." NR - 1 ".log") }
  { print "trace wait " $1 " 0\ntrace " $2 " " $3 " " $4 >("replay." (NR - 1) % jobs ".log") }
' "$trace"
(confined fio --output-format=json+ --output="$output" job.fio) || status=$?
