"""Cells into visits of rigs: an array is built once for all cells that share it, in seeded order within blocks."""
