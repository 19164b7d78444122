"""Footers and row groups of Parquet files, both with checksums that fit."""

import random

from google_crc32c import value as crc32c

from spark_eos.errors import CorruptRecordError
from spark_eos.log.data.parquet.reader import forget_footers, read_group
from spark_eos.log.log import Log
from spark_eos.log.topics import layout_of
from tests.corruption.damage import FilesStore
from tests.corruption.hostile import EXAMPLES, HUGE, little, logs

chance = random.Random(5)
groups = []
for files in logs():
    log = Log.open(FilesStore(files, {}))
    for topic in log.state.topics.values():
        for number in range(topic.partitions):
            for row in log.state.partitions[topic.topic_id, number].index.scan(0, log.load):
                if row.file is not None and row.file.is_parquet:
                    layout = layout_of(topic, row.file.schema_version)
                    read_group(FilesStore(files, {}), row.file, row.batch, layout)
                    groups.append((files, row.file, row.batch, layout))
assert len(groups) > 5
little(200 << 20)
for number in range(EXAMPLES * 6):
    files, file, batch, layout = chance.choice(groups)
    data = bytearray(files[file.name])
    footer, group = len(data) - file.footer, slice(batch.position, batch.position + batch.length)
    start, end = (footer, len(data)) if number % 2 else (group.start, group.stop)
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(start, end)
        new = chance.choice([bytes([chance.randrange(256)]), *HUGE])[: end - at]
        data[at : at + len(new)] = new
    file = file._replace(footer_crc=crc32c(bytes(data[footer:])))
    batch = batch._replace(crc=crc32c(bytes(data[group])))
    forget_footers()
    try:
        read_group(FilesStore({file.name: bytes(data)}, {}), file, batch, layout)
    except CorruptRecordError as error:
        assert file.name in str(error), error
