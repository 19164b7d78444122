"""Filters rows as a task does, and says how many are left and which costly modules were loaded for it."""

from __future__ import annotations

import pickle
import sys

import pyarrow as pa

from spark_eos.log.selection.expression import parsed

IDS = pa.Table.from_arrays([pa.nulls(3, pa.int64()), pa.nulls(3, pa.timestamp("us"))], names=["id", "at"])

if __name__ == "__main__":
    text = "id IN (1, 2) OR at > '2026-01-02' OR id IS NULL"
    found = pickle.loads(pickle.dumps(parsed(text, "t", IDS.schema)))
    print(
        found.apply(IDS).num_rows,
        *sorted({"pandas", "pyarrow.acero", "pyarrow.dataset"} & sys.modules.keys()),
    )
