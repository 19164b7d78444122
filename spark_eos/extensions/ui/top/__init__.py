"""``eoslog top``: how a log is doing, in a terminal."""
