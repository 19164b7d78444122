"""Settings of Kafka's clients that have no row in the tables of options: what they are, and why nothing needs them."""
