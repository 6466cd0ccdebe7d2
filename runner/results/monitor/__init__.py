"""Use of disks, processors and memory during a trial, from kernel counters; pure functions."""
