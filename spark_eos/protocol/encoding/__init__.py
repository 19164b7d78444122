"""Entries, snapshots and index blocks as bytes."""
