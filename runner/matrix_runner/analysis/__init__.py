"""Analysis of many runs: select from the shared store, tabulate, compare, follow over time."""
