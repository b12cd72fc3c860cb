"""The grammar of server log lines, its dialects, and the forms of a crash; pure, no I/O."""
