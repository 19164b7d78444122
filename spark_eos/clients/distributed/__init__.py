"""One transaction of many processes: they stage rows under its token, and one call commits all of them, or none."""
