"""Recorded trials into JUnit, CSV and terminal tables; one file per format, pure."""
