"""Kinds of work: what a cell runs on its stack, one folder for each kind."""
