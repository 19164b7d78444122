"""Says what is frozen outside of a task of Spark, in one, in the same one again, and after one more import."""

import gc
import importlib

from pyspark import TaskContext

from spark_eos.spark.workers import freeze_imports

freeze_imports()
print(gc.get_freeze_count() > 0)
TaskContext._getOrCreate()
freeze_imports()
first = gc.get_freeze_count()
later = [[]]
freeze_imports()
print(first > 10_000, gc.get_freeze_count() <= first)
importlib.import_module("wave")
freeze_imports()
print(gc.get_freeze_count() > first)
