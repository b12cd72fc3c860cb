"""Records and verdicts as text, tables and JSON; pure functions from results to strings."""
