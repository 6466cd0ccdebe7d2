"""Disks that exist: what there is, what of it may be used and why not, and how it is held while it is."""
