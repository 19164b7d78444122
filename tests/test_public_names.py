"""What can be imported from where: a name that comes or goes does so on purpose, and in the changelog."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import spark_eos
from spark_eos import errors, monitoring

PUBLIC = [
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
    "Tables",
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

MONITORING = [
    "Activity",
    "Checkpoints",
    "HeldBack",
    "Lag",
    "LagTotal",
    "MeasuredStore",
    "OpenTransaction",
    "QueryAcross",
    "Registration",
    "TopicActivity",
    "Watch",
    "lags",
    "lags_across",
    "register",
    "totals",
]

ERRORS = {
    "EosLogError": "Exception",
    # Retry
    "RetriableError": "EosLogError",
    "CommitOutcomeLostError": "FatalError",
    "CommitOutcomeUnknownError": "RetriableError",
    "KafkaTimeoutError": "RetriableError",
    "OutcomeUnknownError": "RetriableError",
    "StoreUnavailableError": "RetriableError",
    "SchemaRegistryError": "RetriableError",
    "SegmentsReplacedError": "RetriableError",
    "TableChangedError": "RetriableError",
    "UnstableOffsetCommitError": "RetriableError",
    "WakeupError": "RetriableError",
    # Abort the transaction
    "AbortableError": "EosLogError",
    "CommitFailedError": "AbortableError",
    "FencedInstanceIdError": "CommitFailedError",
    "IllegalGenerationError": "CommitFailedError",
    "OutOfOrderSequenceError": "AbortableError",
    "RecordTooLargeError": "AbortableError",
    "RecordsFailedError": "StorageError",
    "StagedFileExpiredError": "AbortableError",
    "UnknownMemberIdError": "CommitFailedError",
    # Give up
    "FatalError": "EosLogError",
    "DivergedLogError": "FatalError",
    "InvalidPidMappingError": "FatalError",
    "InvalidTransactionTimeoutError": "FatalError",
    "InvalidTxnStateError": "FatalError",
    "ProducerFencedError": "FatalError",
    # Mend the call
    "InvalidRequestError": "EosLogError",
    "ConcurrentModificationError": "InvalidRequestError",
    "ConfigError": "InvalidRequestError",
    "GroupIdNotFoundError": "InvalidRequestError",
    "GroupNotEmptyError": "InvalidRequestError",
    "IllegalStateError": "InvalidRequestError",
    "InconsistentGroupProtocolError": "InvalidRequestError",
    "InvalidRecordError": "InvalidRequestError",
    "InvalidTimestampError": "InvalidRecordError",
    "LogExistsError": "InvalidRequestError",
    "NoOffsetForPartitionError": "InvalidRequestError",
    "NotALogError": "InvalidRequestError",
    "OffsetOutOfRangeError": "InvalidRequestError",
    "RecordDeserializationError": "SerializationError",
    "SchemaMismatchError": "InvalidRequestError",
    "SerializationError": "InvalidRecordError",
    "TopicExistsError": "InvalidRequestError",
    "UnknownTopicOrPartitionError": "InvalidRequestError",
    "UnsupportedVersionError": "InvalidRequestError",
    # Look at the checkpoint
    "CheckpointMismatchError": "EosLogError",
    # Look at the storage
    "StorageError": "EosLogError",
    "CorruptRecordError": "StorageError",
    "ObjectExistsError": "StorageError",
    "ObjectNotFoundError": "StorageError",
    "StoreFullError": "StorageError",
    "StorePermissionError": "StorageError",
    "TableDamagedError": "StorageError",
    "UnsupportedStoreError": "StorageError",
}
"""Each error and the group it is in."""


def test_names_of_the_package():
    assert sorted(spark_eos.__all__) == PUBLIC
    assert [name for name in PUBLIC if not hasattr(spark_eos, name)] == []


def test_names_of_monitoring():
    assert sorted(monitoring.__all__) == MONITORING
    assert [name for name in MONITORING if not hasattr(monitoring, name)] == []


def test_names_of_the_errors():
    assert errors.__all__ == sorted(ERRORS)


def test_groups_of_the_errors():
    assert {name: getattr(errors, name).__base__.__name__ for name in errors.__all__} == ERRORS


def test_codes_of_the_errors():
    """They are for programs and alerts, and stay."""
    assert errors.EosLogError.code == "EOS_LOG"
    assert errors.ProducerFencedError.code == "PRODUCER_FENCED"
    assert errors.NotALogError.code == "NOT_A_LOG"
    assert errors.UnknownTopicOrPartitionError("no topic 't'").code == "UNKNOWN_TOPIC_OR_PARTITION"
    codes = [getattr(errors, name).code for name in errors.__all__]
    assert len(set(codes)) == len(codes)


def test_errors_that_python_users_catch_by_other_names():
    assert {name for name in errors.__all__ if issubclass(getattr(errors, name), ValueError)} == {
        "ConfigError",
        "InvalidRecordError",
        "InvalidTimestampError",
        "RecordDeserializationError",
        "SchemaMismatchError",
        "SerializationError",
    }
    assert {name for name in errors.__all__ if issubclass(getattr(errors, name), KeyError)} == {
        "GroupIdNotFoundError",
        "UnknownTopicOrPartitionError",
    }
    assert str(errors.UnknownTopicOrPartitionError("no topic 't'")) == "no topic 't'"


def test_no_error_is_left_out_of_the_list():
    defined = {name for name, _ in inspect.getmembers(errors, inspect.isclass) if not name.startswith("_")}
    assert defined == set(errors.__all__)


def test_the_package_does_not_need_spark():
    modules = (
        "import spark_eos, sys; print([m for m in sys.modules if m.split('.')[0] in ('pyspark', 'py4j')])"
    )
    done = subprocess.run([sys.executable, "-c", modules], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_without_spark_its_names_say_what_to_install():
    code = "import sys; sys.modules['pyspark'] = None\nfrom spark_eos import read_table"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    told = "needs PySpark, which is not installed: pip install 'spark-eos[spark]'"
    assert told in done.stderr.splitlines()[-1]


def test_names_are_stated_once():
    """An underscore says what is private: ``__all__`` is for a module that hands on what another one defines."""
    for path in Path(spark_eos.__file__).parent.rglob("[!_]*.py"):
        source = path.read_text(encoding="utf-8")
        if "__all__" not in source:
            continue
        tree = ast.parse(source).body
        imported = {
            alias.asname or alias.name
            for node in tree
            for part in ast.walk(node)
            if isinstance(part, ast.ImportFrom)
            for alias in part.names
        }
        stated = {
            name
            for node in tree
            if isinstance(node, ast.Assign) and ast.unparse(node.targets) == "__all__"
            for name in ast.literal_eval(node.value)
        }
        assert not stated or stated & imported, f"{path}: take __all__ away"
