"""Listening sockets of the HTTP servers that this package starts, and the addresses that they are given."""
