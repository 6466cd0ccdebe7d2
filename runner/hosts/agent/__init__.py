"""Hosts that OpenSSH reaches: one connection each, and what holds and works there while it drops and comes back."""
