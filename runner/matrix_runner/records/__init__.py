"""Records: journal, run folder, store, the output of programs, kernel counters."""
