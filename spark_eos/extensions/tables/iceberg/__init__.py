"""Iceberg tables, written by pyiceberg: shared ones over the log's own files, and copies."""
