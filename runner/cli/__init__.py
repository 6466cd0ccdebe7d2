"""The `matrix` command."""
