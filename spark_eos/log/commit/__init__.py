"""How a request becomes an entry: the commit loop, group commit, requests in doubt, and the tail of the log."""
