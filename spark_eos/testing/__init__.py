"""Tools to test stores and jobs, shipped so that users can test their own.

`FaultyStore` wraps a store and fails on demand. The contract suite for stores needs pytest and is imported
from its module: ``from spark_eos.testing.store_contract import StoreContract``.
"""

from __future__ import annotations

from spark_eos.testing.faulty_store import Call, Fault, FaultyStore

__all__ = ["Call", "Fault", "FaultyStore"]
