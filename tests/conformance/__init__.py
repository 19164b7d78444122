"""Kafka's transaction tests, the anomalies seen in the wild, and our own rules: row by row, with tests."""
