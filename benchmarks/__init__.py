"""Benchmarks: ratios measured in one run, never asserted by a test. Run by ``scripts/bench-*``."""
