"""Schemas of topics change: new versions of them, and rows read under another version than they were written with."""
