"""Rows: their layout, the files that they are written to, the plan of a read, and reading."""
