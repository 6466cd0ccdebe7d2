"""The loop that carries a plan out on a machine and records every trial."""
