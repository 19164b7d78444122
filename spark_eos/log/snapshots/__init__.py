"""Snapshots of the state, the stored blocks of indexes, and the retirement of entries that they cover."""
