"""The engine: a pure scheduler decides what to measure next, and an executor does it and records every trial."""
