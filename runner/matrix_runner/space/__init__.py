"""Expand a matrix to its cells. Every list in a matrix is an axis."""
