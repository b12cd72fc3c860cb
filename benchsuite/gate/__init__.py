"""Rules: comparing measurements with limits, with each other and with baselines; the verdict."""
