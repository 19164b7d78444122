"""Edited record batches whose CRC fits: rows, or an error that names the file."""

import random

import pyarrow as pa
from google_crc32c import value as crc32c

from spark_eos.errors import CorruptRecordError
from spark_eos.log.data.reader import decode_batch
from spark_eos.log.log import Log
from spark_eos.log.topics import layout_of
from tests.corruption.damage import FilesStore, compressed, golden
from tests.corruption.hostile import EXAMPLES, little, mutated

chance = random.Random(1)
batches = []
for files in (golden(), compressed()):
    log = Log.open(FilesStore(files, {}))
    for topic in log.state.topics.values():
        for number in range(topic.partitions):
            for row in log.state.partitions[topic.topic_id, number].index.tail:
                if row.file is not None:
                    data = files[row.file.name][row.batch.position : row.batch.position + row.batch.length]
                    layout = layout_of(topic, row.file.schema_version)
                    decode_batch(pa.py_buffer(data), row.file, row.batch, layout)
                    batches.append((data, row.file, row.batch, layout))
little(300 << 20)
for _ in range(EXAMPLES * 4):
    data, file, batch, layout = chance.choice(batches)
    bad = mutated(data, chance)
    batch = batch._replace(length=len(bad), crc=crc32c(bad))
    try:
        decode_batch(pa.py_buffer(bad), file, batch, layout)
    except CorruptRecordError as error:
        assert file.name in str(error)
