"""Run records, their journals and baselines on disk: reading them back, and their only writers."""
