"""`python -m benchsuite`."""

from benchsuite.cli.main import main

main()
