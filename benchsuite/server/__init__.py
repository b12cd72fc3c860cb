"""A server to measure: found, launched and guarded, or attached to; the tiny models."""
