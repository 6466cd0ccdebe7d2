"""Records of measurements: journal, run folder, shared store, fio output and monitor counters."""
