"""What a producer knows: the partitions of a topic, and figures about what it has sent."""

from __future__ import annotations

from spark_eos.clients.metrics import Metrics
from spark_eos.clients.producer.transactional import ProducerTransactions
from spark_eos.errors import IllegalStateError


class ProducerInformation(ProducerTransactions):
    """The calls that send nothing."""

    def partitions_for(self, topic: str) -> set[int]:
        """Return the partitions of a topic.

        Parameters
        ----------
        topic
            The name of the topic. As in Kafka it is created if it is missing and ``auto.create.topics.enable`` is on.

        Returns
        -------
        set of int
            Their numbers.

        Raises
        ------
        UnknownTopicOrPartitionError
            The log has no such topic, and ``auto.create.topics.enable`` is off.
        IllegalStateError
            The producer is closed.

        Examples
        --------
        >>> from spark_eos import Admin, Producer
        >>> Admin("memory://partitions-for").create_topic("orders", partitions=2)
        >>> Producer("memory://partitions-for").partitions_for("orders")
        {0, 1}
        """
        self._check_process("partitions_for")
        if self._closed:
            raise IllegalStateError("partitions_for: the producer is closed")
        self._log().follow()
        return set(range(self._topic(topic, None).partitions))

    def metrics(self) -> Metrics:
        """Return figures about what was sent, under Kafka's names.

        Returns
        -------
        dict of str to dict of str to float
            Figures by name, by group: ``producer-metrics``, and ``producer-topic-metrics.<topic>`` of each topic.
            Totals are since the start of this producer; rates, averages and maxima of the last minute.

        Examples
        --------
        >>> from spark_eos import Producer
        >>> with Producer("memory://producer-metrics") as producer:
        ...     future = producer.send("orders", b"one")
        >>> producer.metrics()["producer-metrics"]["record-send-total"]
        1.0

        Notes
        -----
        All names: docs/reference/clients.md.
        """
        self._check_process("metrics")
        waiting = self._transactions.pending if self._transactions is not None else self._waiting.pending
        return self._metrics.shown(waiting.bytes, self._memory_bytes)
