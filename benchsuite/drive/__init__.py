"""Steps and sessions turned into requests and replies."""
