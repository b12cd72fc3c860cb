"""What is read beside HTTP: the log as it grows, process memory, /metrics, /slots."""
