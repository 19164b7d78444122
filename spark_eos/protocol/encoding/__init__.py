"""Entries, snapshots and index pages as bytes."""
