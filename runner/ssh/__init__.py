"""Hosts that OpenSSH reaches: one connection each, and what holds and works over there while it drops and comes back."""
