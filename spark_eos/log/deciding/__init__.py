"""Prepared transactions that follow the decision of another log (docs/design/0014)."""
