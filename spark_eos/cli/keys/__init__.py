"""Commands about the keys of encrypted data files."""
