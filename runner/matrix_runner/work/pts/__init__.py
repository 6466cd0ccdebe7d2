"""The tests of SNIA's Performance Test Specification."""
