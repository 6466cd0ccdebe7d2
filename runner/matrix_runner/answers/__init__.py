"""Answers from recorded trials: figures of cells, guidelines and verdicts, the ranking, imports."""
