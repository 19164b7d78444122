"""Mirrors between Kafka and a log. Kafka's positions are committed in the entry of the rows (docs/design/0010)."""
