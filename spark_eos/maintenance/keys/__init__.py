"""Keys of encrypted data files: which ones are in use, and how files get another one."""
