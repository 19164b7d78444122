"""Metrics: the table of all of them, what collects them, and what exports them."""
