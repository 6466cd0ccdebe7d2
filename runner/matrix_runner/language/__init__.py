"""The matrix language: its models, units, places and messages."""
