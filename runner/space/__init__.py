"""A matrix into cells: a list is an axis."""
