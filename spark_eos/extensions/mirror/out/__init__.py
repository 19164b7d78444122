"""Mirrors of a log to Kafka: the position is committed in the Kafka transaction of the records (docs/design/0013)."""
