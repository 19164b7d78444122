"""Commands for those who operate a log: ``eoslog lag``, ``eoslog top`` and ``eoslog ui``."""
