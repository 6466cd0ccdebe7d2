"""Simulated disks: physics, server, faults, overload of the host."""
