"""What the benchmarks import beside Spark: a client of Kafka, Delta's configuration, a chart."""

import confluent_kafka
import delta
import matplotlib as mpl

mpl.use("Agg")

from matplotlib import pyplot as plt

assert confluent_kafka.libversion()[0]
assert callable(delta.configure_spark_with_delta_pip)
figure, axes = plt.subplots()
axes.plot([1, 2, 3])
figure.savefig("chart.png")
