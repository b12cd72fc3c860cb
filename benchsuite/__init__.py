"""Benchmark and CI-gate suite for llama.cpp llama-server deployments.

PYTEST_DONT_REWRITE: asserts here are no tests; pytest, which loads our plugin, would else warn
whoever has imported benchsuite before.
"""

__version__ = "0.1.0"
