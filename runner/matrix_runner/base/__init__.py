"""Errors, processes, caches, atomic files and quantities."""
