"""Group commit across machines: a leader found through an object of the store, and reached over HTTPS."""
