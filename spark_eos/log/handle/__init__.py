"""What a `Log` does, in parts."""
