"""Commands for those who operate a log: ``eoslog lag`` and ``eoslog top``."""
