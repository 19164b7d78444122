"""Real chaos: Spark on a standalone cluster and clients, killed and frozen at random, and every row compared.

``python -m verification.chaos --minutes 10`` (`scripts/chaos`). See docs/quality/testing.md.
"""
