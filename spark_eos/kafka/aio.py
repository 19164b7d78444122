"""The clients of aiokafka: their constructors."""

from __future__ import annotations

from typing import Any

from spark_eos.extensions.aio.consumer import AIOConsumer
from spark_eos.extensions.aio.producer import AIOProducer
from spark_eos.kafka.clients import KafkaConsumer, log_of, renamed


class AIOKafkaProducer(AIOProducer):
    """`spark_eos.AIOProducer` with the constructor of aiokafka's.

    Parameters
    ----------
    **configs
        Settings of aiokafka. ``bootstrap_servers`` is the log's folder or URL.
    """

    def __init__(self, **configs: Any) -> None:
        url = log_of(configs)
        super().__init__(url, **renamed(configs))


class AIOKafkaConsumer(AIOConsumer):
    """`spark_eos.AIOConsumer` with the constructor of aiokafka's.

    Parameters
    ----------
    *topics
        Names of topics that `start` subscribes to.
    **configs
        Settings of aiokafka. ``bootstrap_servers`` is the log's folder or URL.
    """

    def __init__(self, *topics: str, **configs: Any) -> None:
        url = log_of(configs)
        super().__init__(url, **configs)
        self._topics = topics

    def _make_consumer(self) -> KafkaConsumer:
        return KafkaConsumer(*self._topics, bootstrap_servers=self._url, **self._settings)
