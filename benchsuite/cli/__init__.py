"""One thin command a file; everything heavy is imported inside the command."""
