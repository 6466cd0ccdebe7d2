"""A rebuild, resync, check or repair of an array."""
