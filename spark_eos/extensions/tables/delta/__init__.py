"""Delta tables, by delta-rs: what a publication writes into them, and what it reads of their history."""
