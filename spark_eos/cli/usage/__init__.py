"""How the commands are used: examples, completion, the version."""
