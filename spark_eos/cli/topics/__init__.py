"""``eoslog topics``, ``describe`` and ``get-offsets``."""
