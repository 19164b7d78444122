"""The way to a leader: HTTPS, to the process that has the key of the hint's certificate, and to no other."""

from __future__ import annotations

import ssl

import httpx

from spark_eos.extensions.machines.hint import Hint
from spark_eos.extensions.machines.message import Answer, decode_answer
from spark_eos.extensions.machines.server import HEARD_S, KNOWN, MEMBER, PATH

_CONNECT_S = 1.0
_ANSWER_S = 1.0 + HEARD_S
"""As long as a process waits for a leader that gives no sign (`spark_eos.log.commit.group`)."""

_MAX_ANSWER_BYTES = 1000


class HttpsPeer:
    """`spark_eos.extensions.machines.message.Peer` over HTTPS. ``member`` names this process at the leader."""

    def __init__(self, hint: Hint, member: str) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.load_verify_locations(cadata=hint.certificate)
        host = f"[{hint.host}]" if ":" in hint.host else hint.host
        self._client = httpx.Client(
            base_url=f"https://{host}:{hint.port}",
            headers={"authorization": f"Bearer {hint.token}", MEMBER: member},
            timeout=httpx.Timeout(_ANSWER_S, connect=_CONNECT_S),
            verify=context,
            trust_env=False,
        )

    def exchange(self, bundle: bytes, seq: int) -> Answer | None:
        try:
            with self._client.stream("POST", PATH, content=bundle, headers={KNOWN: str(seq)}) as response:
                if response.status_code != httpx.codes.OK:
                    return None
                body = b""
                for part in response.iter_bytes():
                    body += part
                    if len(body) > _MAX_ANSWER_BYTES:
                        return None
        except (httpx.HTTPError, OSError):
            return None
        return decode_answer(body)

    def close(self) -> None:
        self._client.close()


def call(hint: Hint, member: str) -> HttpsPeer | None:
    """The way to the leader that a hint names; None if the hint is nonsense. Nothing is asked yet."""
    try:
        return HttpsPeer(hint, member)
    except (ValueError, OSError, httpx.InvalidURL):
        return None
