"""The consumer, and its part in a group."""
