"""Figures, each from one command."""
