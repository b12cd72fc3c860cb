"""What goes wrong with a server, each by its name."""
