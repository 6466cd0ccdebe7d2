"""The replay of a trace."""
