"""Styles that are readable on light and on dark backgrounds, and never carry meaning that words do not."""

#: Red, green, magenta and bold are; dim, yellow, white and bright colours are not.
GOOD, BAD, DOUBT = "green", "bold red", "magenta"
