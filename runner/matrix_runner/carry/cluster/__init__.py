"""Clusters: a relay (`matrix cluster scheduler`), the workers that join it, and the connection of a run to it."""
