"""Commands about logs as a whole: backups, restoring, copies."""
