"""Topics with Avro or JSON values as tables: their columns."""
