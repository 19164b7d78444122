"""In a user's environment: the wheel and what it needs are there, and nothing of the developers."""

import importlib.util
import sys

import spark_eos

assert spark_eos.__file__.startswith(sys.prefix), spark_eos.__file__
for name in ("pyspark", "pandas", "typer"):
    assert importlib.util.find_spec(name) is not None, name
for name in ("tests", "verification", "benchmarks", "pytest", "hypothesis", "starlette", "obstore", "duckdb"):
    assert importlib.util.find_spec(name) is None, name
