"""The protocol: entries, the state they add up to, and the rules. Pure: no I/O, no clock, no randomness."""
