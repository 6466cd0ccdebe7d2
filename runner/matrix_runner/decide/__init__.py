"""Decide what to measure next, where, and for how long."""
