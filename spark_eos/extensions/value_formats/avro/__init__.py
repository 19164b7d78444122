"""Avro: schemas, their resolution, and values of many rows at once."""
