"""Records and comparisons as text, JSON and Markdown; pure functions from results to output."""
