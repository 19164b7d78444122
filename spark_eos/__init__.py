"""A transactional, partitioned log in a folder, and an exactly-once source and sink for PySpark.

Clients are loaded when they are first used, so that importing the package, which every Spark worker does,
stays cheap.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from spark_eos import errors as errors
from spark_eos import extending

if TYPE_CHECKING:
    from spark_eos.clients.admin import Admin as Admin
    from spark_eos.clients.admin import ClockDescription as ClockDescription
    from spark_eos.clients.admin import Expired as Expired
    from spark_eos.clients.admin import GroupDescription as GroupDescription
    from spark_eos.clients.admin import GroupPartition as GroupPartition
    from spark_eos.clients.admin import HangingTransaction as HangingTransaction
    from spark_eos.clients.admin import LogDescription as LogDescription
    from spark_eos.clients.admin import MemberDescription as MemberDescription
    from spark_eos.clients.admin import PartitionDescription as PartitionDescription
    from spark_eos.clients.admin import ProducerDescription as ProducerDescription
    from spark_eos.clients.admin import TopicDescription as TopicDescription
    from spark_eos.clients.admin import TransactionDescription as TransactionDescription
    from spark_eos.clients.arrow_reader import read_arrow as read_arrow
    from spark_eos.clients.consumer.consumer import Consumer as Consumer
    from spark_eos.clients.producer.producer import Producer as Producer
    from spark_eos.clients.producer.transaction_states import PreparedTxnState as PreparedTxnState
    from spark_eos.clients.records import ConsumerGroupMetadata as ConsumerGroupMetadata
    from spark_eos.clients.records import ConsumerRecord as ConsumerRecord
    from spark_eos.clients.records import ConsumerRecords as ConsumerRecords
    from spark_eos.clients.records import OffsetAndTimestamp as OffsetAndTimestamp
    from spark_eos.clients.records import RecordMetadata as RecordMetadata
    from spark_eos.clients.table_reader import read_duckdb as read_duckdb
    from spark_eos.clients.table_reader import read_polars as read_polars
    from spark_eos.extensions.aio.consumer import AIOConsumer as AIOConsumer
    from spark_eos.extensions.aio.producer import AIOProducer as AIOProducer
    from spark_eos.extensions.distributed.receipt import StagedReceipt as StagedReceipt
    from spark_eos.extensions.distributed.staged_writer import StagedWriter as StagedWriter
    from spark_eos.extensions.distributed.token import TransactionToken as TransactionToken
    from spark_eos.extensions.distributed.transaction import DistributedTransaction as DistributedTransaction
    from spark_eos.extensions.several_logs.producer import MultiLogProducer as MultiLogProducer
    from spark_eos.extensions.tables.tables import Tables as Tables
    from spark_eos.extensions.value_formats.serializers import AvroDeserializer as AvroDeserializer
    from spark_eos.extensions.value_formats.serializers import AvroSerializer as AvroSerializer
    from spark_eos.extensions.value_formats.serializers import JsonDeserializer as JsonDeserializer
    from spark_eos.extensions.value_formats.serializers import JsonSerializer as JsonSerializer
    from spark_eos.log.log import Log as Log
    from spark_eos.protocol.types import OffsetAndMetadata as OffsetAndMetadata
    from spark_eos.protocol.types import TopicPartition as TopicPartition
    from spark_eos.spark.listener import ProgressListener as ProgressListener
    from spark_eos.spark.progress import query_progress as query_progress
    from spark_eos.spark.sink.query_history import require_own_log as require_own_log
    from spark_eos.spark.start import start_query as start_query
    from spark_eos.spark.table import read_table as read_table
    from spark_eos.spark.transactions.batch import BatchTransaction as BatchTransaction
    from spark_eos.spark.transactions.micro_batch import MicroBatchTransaction as MicroBatchTransaction
    from spark_eos.storage import Store as Store
    from spark_eos.storage import register_store as register_store

__version__ = "0.1.0"

_HOMES = {
    "Admin": "spark_eos.clients.admin",
    "BatchTransaction": "spark_eos.spark.transactions.batch",
    "ClockDescription": "spark_eos.clients.admin",
    "Consumer": "spark_eos.clients.consumer.consumer",
    "ConsumerGroupMetadata": "spark_eos.clients.records",
    "ConsumerRecord": "spark_eos.clients.records",
    "ConsumerRecords": "spark_eos.clients.records",
    "Expired": "spark_eos.clients.admin",
    "GroupDescription": "spark_eos.clients.admin",
    "GroupPartition": "spark_eos.clients.admin",
    "HangingTransaction": "spark_eos.clients.admin",
    "Log": "spark_eos.log.log",
    "LogDescription": "spark_eos.clients.admin",
    "MemberDescription": "spark_eos.clients.admin",
    "MicroBatchTransaction": "spark_eos.spark.transactions.micro_batch",
    "OffsetAndMetadata": "spark_eos.protocol.types",
    "OffsetAndTimestamp": "spark_eos.clients.records",
    "PartitionDescription": "spark_eos.clients.admin",
    "PreparedTxnState": "spark_eos.clients.producer.transaction_states",
    "Producer": "spark_eos.clients.producer.producer",
    "ProducerDescription": "spark_eos.clients.admin",
    "ProgressListener": "spark_eos.spark.listener",
    "RecordMetadata": "spark_eos.clients.records",
    "Store": "spark_eos.storage",
    "TopicDescription": "spark_eos.clients.admin",
    "TopicPartition": "spark_eos.protocol.types",
    "TransactionDescription": "spark_eos.clients.admin",
    "query_progress": "spark_eos.spark.progress",
    "read_arrow": "spark_eos.clients.arrow_reader",
    "read_duckdb": "spark_eos.clients.table_reader",
    "read_polars": "spark_eos.clients.table_reader",
    "read_table": "spark_eos.spark.table",
    "register_store": "spark_eos.storage",
    "require_own_log": "spark_eos.spark.sink.query_history",
    "start_query": "spark_eos.spark.start",
}


def __getattr__(name: str) -> Any:
    if name == "__all__":
        return _names()
    if name not in _HOMES:
        return extending.public(__name__, name)
    value = globals()[name] = getattr(importlib.import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_names()})


def _names() -> list[str]:
    """The public names, and those of the extensions that are here."""
    prefix = f"{__name__}."
    added = (key.removeprefix(prefix) for key in extending.keys_added("names") if key.count(".") == 1)
    return sorted(["__version__", "errors", *_HOMES, *added])
