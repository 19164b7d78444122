"""``eoslog produce`` and ``eoslog consume``: records from a shell, and back."""
