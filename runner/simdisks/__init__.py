"""Simulated disks: physics, server, faults, overload."""
