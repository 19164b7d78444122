"""A deterministic simulator: real clients, sources and sinks on a store that fails in every way, by a seed.

Needs the package greenlet (extra ``testing``).
"""
