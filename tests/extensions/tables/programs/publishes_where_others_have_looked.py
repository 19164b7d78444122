"""Writes, publishes a table and makes another one: what handles elsewhere know of the log's tables is over."""

import sys

from spark_eos import Producer
from spark_eos.extensions.tables.tables import Tables

url, copies = sys.argv[1:]
with Producer(url) as producer:
    producer.send("t", b"y", partition=0)
tables = Tables(url)
tables.publish("p")
tables.create("q", ["t"], mode="copied", location=copies)
