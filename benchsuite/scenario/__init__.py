"""From files to a plan: loading with line numbers, flags, prompts, deployments, planning."""
