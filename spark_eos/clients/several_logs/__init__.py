"""One transaction over several logs (docs/design/0014)."""
