"""`python -m matrix_runner.cli`."""

from matrix_runner.cli import main

main()
