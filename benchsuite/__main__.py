"""`python -m benchsuite`."""

from benchsuite.cli.early import main

main()
