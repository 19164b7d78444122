"""``eoslog metrics``, and the server from which Prometheus reads."""
