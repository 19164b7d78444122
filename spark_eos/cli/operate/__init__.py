"""Commands that show how a log is doing."""
