"""Styles of terminal text. They repeat what words state, and are readable on light and dark backgrounds."""

#: Dim, yellow, white and bright colours are hard to read on some backgrounds.
GOOD, BAD, DOUBT = "green", "bold red", "magenta"
