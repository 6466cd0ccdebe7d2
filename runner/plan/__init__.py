"""Cells into visits of rigs: one array for all cells that share it, in seeded random order within blocks."""
