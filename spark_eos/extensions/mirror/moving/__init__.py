"""Moving clients from Kafka to a log, one by one: what has to be true before each move, and where it goes on."""
