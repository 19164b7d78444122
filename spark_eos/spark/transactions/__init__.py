"""Transactions of several DataFrames: in ``foreachBatch`` with the source offsets, and in batch jobs."""
