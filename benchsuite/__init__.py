"""Benchmark and CI-gate suite for llama.cpp llama-server deployments."""

__version__ = "0.1.0"
