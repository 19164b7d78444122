"""Calls of clients for asyncio as other clients of Kafka spell them end with an error that has the right call."""

from __future__ import annotations

import pytest

from spark_eos import AIOConsumer, AIOProducer
from tests.clients.test_other_spellings import WITHOUT_A_LOG, has_another_name, is_refused_without_a_log


@pytest.mark.parametrize("client", [AIOProducer, AIOConsumer])
@WITHOUT_A_LOG
def test_a_client_without_a_log(client, arguments, settings, what):
    is_refused_without_a_log(client, arguments, settings, what)


@pytest.mark.parametrize(
    ("client", "name", "says"),
    [(AIOProducer, "produce", "call send("), (AIOConsumer, "store_offsets", "call commit(")],
)
def test_a_call_that_has_another_name_here(tmp_path, client, name, says):
    has_another_name(str(tmp_path / "log"), client, name, says)
