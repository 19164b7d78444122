"""Writes of batch jobs."""
