"""The only orchestrators: each joins the parts below it into one command."""
