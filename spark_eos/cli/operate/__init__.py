"""Commands for those who operate a log: ``eoslog lag``, ``eoslog top``, ``eoslog metrics`` and ``eoslog ui``."""
