"""Values of Kafka-shaped topics that have a format: what a format is. The formats themselves are an extension."""
