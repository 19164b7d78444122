"""Two-phase commit: transactions that wait for the decision of another system (KIP-939)."""
