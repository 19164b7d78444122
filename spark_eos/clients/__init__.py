"""Floor 4: producer, consumer and admin, with Kafka's names and settings."""
