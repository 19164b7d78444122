"""Spark queries: their micro-batches (an action), their history, and their sources."""
