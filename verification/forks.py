"""What forked processes begin with, where processes are greenlets: a copy of another one's memory."""

from __future__ import annotations

import copy
from typing import TypeVar

from spark_eos.clients.producer.producer import Producer
from spark_eos.log.clock import Clock
from spark_eos.log.components import Components
from spark_eos.log.log import Log

__all__ = ["log_in_child", "producer_in_child"]

AnyLog = TypeVar("AnyLog", bound=Log)


def log_in_child(log: AnyLog, clock: Clock) -> AnyLog:
    """The handle as a child has it, which lives by ``clock``."""
    twin = copy.copy(log)
    parts = object.__new__(Components)
    vars(parts).update(vars(log._parts), clock=clock, _is_same=twin.is_same)  # noqa: SLF001
    vars(twin).update(clock=clock, _parts=parts)
    parts.forked()
    return twin


def producer_in_child(producer: Producer) -> Producer:
    """The client as a child has it: of no use."""
    twin = object.__new__(Producer)
    vars(twin).update(vars(producer), _made_in=-1)
    twin.forked()
    return twin
