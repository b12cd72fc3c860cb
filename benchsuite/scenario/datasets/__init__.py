"""Files of requests, read once from end to end in little memory."""
