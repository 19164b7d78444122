"""Sealed rows of a topic as Parquet files, which other programs read as well."""
