"""The live page of a log, ``eoslog ui``: what a browser shows of topics, records, groups, transactions and health."""
