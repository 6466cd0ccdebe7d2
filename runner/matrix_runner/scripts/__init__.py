"""Bash scripts and fio jobs of cells, and the values that the read-back must find."""
