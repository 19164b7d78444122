"""What a Spark query commits, without Spark."""

from __future__ import annotations

from spark_eos.protocol.actions.queries.microbatch import MicroBatch, propose
from spark_eos.protocol.types import PartitionOffset, SourceProgress


def micro_batch(log, topic, end, query="copy", first=0, number=0, group=None):
    """A Spark query's micro-batch, by its number, that has read the first partition of a topic up to an offset."""
    topic_id = log.state.topics[topic].topic_id
    places = [(PartitionOffset(topic, topic_id, 0, offset),) for offset in (first, end)]
    source = SourceProgress(f'{{"{first}": 0}}', f'{{"{end}": 0}}', group or query, *places)
    batch = MicroBatch(query, "q-1", "run", number, (source,), (), ())
    log.commit(lambda state: propose(state, batch, finished=False))
