"""What keeps a log quick and small. Nothing of it is needed for correctness (docs/guide/maintenance.md)."""
