"""`eoslog verify`: whether everything is there, and is what the entries say."""
