"""Benchmarks: what the project promises, measured. Not tests: nothing here passes or fails."""
