"""Floor 5: the Spark source and sink, ``format("eoslog")``."""
