"""What lies on disk: run records and their journal, baselines."""
