"""Values of Kafka-shaped topics that have a format: Avro and JSON, one by one and as columns."""
