"""Carry out a run: coordinator, executor, rigs, trials, and the recorder."""
