"""``eoslog mirror``: between Kafka and a log."""
