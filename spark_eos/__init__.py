"""A transactional, partitioned log in a folder, and an exactly-once source and sink for PySpark.

Clients are loaded when they are first used, so that importing the package, which every Spark worker does,
stays cheap.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from spark_eos import errors

if TYPE_CHECKING:
    from spark_eos.clients.admin import (
        Admin,
        ClockDescription,
        Expired,
        GroupDescription,
        GroupPartition,
        HangingTransaction,
        LogDescription,
        MemberDescription,
        PartitionDescription,
        ProducerDescription,
        TopicDescription,
        TransactionDescription,
    )
    from spark_eos.clients.aio.consumer import AIOConsumer
    from spark_eos.clients.aio.producer import AIOProducer
    from spark_eos.clients.arrow_reader import read_arrow
    from spark_eos.clients.consumer.consumer import Consumer
    from spark_eos.clients.distributed.receipt import StagedReceipt
    from spark_eos.clients.distributed.staged_writer import StagedWriter
    from spark_eos.clients.distributed.token import TransactionToken
    from spark_eos.clients.distributed.transaction import DistributedTransaction
    from spark_eos.clients.producer.prepared_state import PreparedTxnState
    from spark_eos.clients.producer.producer import Producer
    from spark_eos.clients.records import (
        ConsumerGroupMetadata,
        ConsumerRecord,
        ConsumerRecords,
        OffsetAndTimestamp,
        RecordMetadata,
    )
    from spark_eos.clients.several_logs.producer import MultiLogProducer
    from spark_eos.clients.table_reader import read_duckdb, read_polars
    from spark_eos.clients.value_serializers import (
        AvroDeserializer,
        AvroSerializer,
        JsonDeserializer,
        JsonSerializer,
    )
    from spark_eos.log.log import Log
    from spark_eos.protocol.types import OffsetAndMetadata, TopicPartition
    from spark_eos.spark.listener import ProgressListener
    from spark_eos.spark.progress import query_progress
    from spark_eos.spark.sink.query_history import require_own_log
    from spark_eos.spark.start import start_query
    from spark_eos.spark.table import read_table
    from spark_eos.spark.transactions.batch import BatchTransaction
    from spark_eos.spark.transactions.micro_batch import MicroBatchTransaction
    from spark_eos.storage import Store, register_store

__all__ = [
    "AIOConsumer",
    "AIOProducer",
    "Admin",
    "AvroDeserializer",
    "AvroSerializer",
    "BatchTransaction",
    "ClockDescription",
    "Consumer",
    "ConsumerGroupMetadata",
    "ConsumerRecord",
    "ConsumerRecords",
    "DistributedTransaction",
    "Expired",
    "GroupDescription",
    "GroupPartition",
    "HangingTransaction",
    "JsonDeserializer",
    "JsonSerializer",
    "Log",
    "LogDescription",
    "MemberDescription",
    "MicroBatchTransaction",
    "MultiLogProducer",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "PartitionDescription",
    "PreparedTxnState",
    "Producer",
    "ProducerDescription",
    "ProgressListener",
    "RecordMetadata",
    "StagedReceipt",
    "StagedWriter",
    "Store",
    "TopicDescription",
    "TopicPartition",
    "TransactionDescription",
    "TransactionToken",
    "__version__",
    "errors",
    "query_progress",
    "read_arrow",
    "read_duckdb",
    "read_polars",
    "read_table",
    "register_store",
    "require_own_log",
    "start_query",
]

__version__ = "0.1.0"

_HOMES = {
    "AvroDeserializer": "spark_eos.clients.value_serializers",
    "AvroSerializer": "spark_eos.clients.value_serializers",
    "JsonDeserializer": "spark_eos.clients.value_serializers",
    "JsonSerializer": "spark_eos.clients.value_serializers",
    "AIOConsumer": "spark_eos.clients.aio.consumer",
    "AIOProducer": "spark_eos.clients.aio.producer",
    "Admin": "spark_eos.clients.admin",
    "BatchTransaction": "spark_eos.spark.transactions.batch",
    "ClockDescription": "spark_eos.clients.admin",
    "Consumer": "spark_eos.clients.consumer.consumer",
    "ConsumerGroupMetadata": "spark_eos.clients.records",
    "ConsumerRecord": "spark_eos.clients.records",
    "ConsumerRecords": "spark_eos.clients.records",
    "DistributedTransaction": "spark_eos.clients.distributed.transaction",
    "Expired": "spark_eos.clients.admin",
    "GroupDescription": "spark_eos.clients.admin",
    "GroupPartition": "spark_eos.clients.admin",
    "HangingTransaction": "spark_eos.clients.admin",
    "Log": "spark_eos.log.log",
    "LogDescription": "spark_eos.clients.admin",
    "MemberDescription": "spark_eos.clients.admin",
    "MultiLogProducer": "spark_eos.clients.several_logs.producer",
    "MicroBatchTransaction": "spark_eos.spark.transactions.micro_batch",
    "OffsetAndMetadata": "spark_eos.protocol.types",
    "OffsetAndTimestamp": "spark_eos.clients.records",
    "PartitionDescription": "spark_eos.clients.admin",
    "PreparedTxnState": "spark_eos.clients.producer.prepared_state",
    "Producer": "spark_eos.clients.producer.producer",
    "ProducerDescription": "spark_eos.clients.admin",
    "ProgressListener": "spark_eos.spark.listener",
    "RecordMetadata": "spark_eos.clients.records",
    "StagedReceipt": "spark_eos.clients.distributed.receipt",
    "StagedWriter": "spark_eos.clients.distributed.staged_writer",
    "Store": "spark_eos.storage",
    "TopicDescription": "spark_eos.clients.admin",
    "TopicPartition": "spark_eos.protocol.types",
    "TransactionDescription": "spark_eos.clients.admin",
    "TransactionToken": "spark_eos.clients.distributed.token",
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
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
