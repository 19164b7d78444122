"""Floor 4: the command ``eoslog``."""
