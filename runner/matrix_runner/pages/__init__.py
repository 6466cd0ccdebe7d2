"""Texts from answers: one module per format or part of a report."""
