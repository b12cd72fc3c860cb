"""The HTTP client of llama-server's API, server-sent events, timings."""
