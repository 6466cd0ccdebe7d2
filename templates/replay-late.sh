# How late the requests began. The first of a job to be on time shows when its clock began.
printf 'replay\t'
awk -v jobs={{ work.iodepth }} -v most={{ 10 * slow }} '
  # The next read or write of a job: its time in the trace.
  function due(file) {
    while ((getline line <file) > 0) {
      split(line, word, " ")
      if (word[2] == "wait") wait = word[3]
      else if (word[2] == "read" || word[2] == "write") return wait
    }
    return -1
  }
  BEGIN {
    for (job = 0; job < jobs; job++) {
      count = 0
      asked = "replay." job ".log"
      done = "replay_lat." job + 1 ".log"
      while ((getline entry <done) > 0) {
        split(entry, field, ", *")
        wait = due(asked)
        begun = field[1] - field[2] / 1000000 - wait
        if (!count || begun < base) base = begun
        if (first == "" || wait < first) first = wait
        behind[count] = begun
        ended[count++] = field[1]
      }
      close(asked)
      close(done)
      for (at = 0; at < count; at++) {
        if (behind[at] - base > worst) worst = behind[at] - base
        if (behind[at] - base > most) late++
        if (ended[at] - base > last) last = ended[at] - base
      }
      requests += count
    }
    printf "{\"requests\": %d, \"late\": %d, \"worst\": %.3f, \"seconds\": %.3f}\n", requests, late, worst / 1000,
      (last - first) / 1000
  }'
