"""Requests to an object store: sent again as long as it makes sense, and answered, or ended with an error of ours.

This module tries again itself, one request at a time. So it knows of every attempt whether it did nothing, or may have
done its work without a reply: the outcome of a request is in doubt if any attempt of it is.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any, TypeVar

from spark_eos.errors import EosLogError, ObjectExistsError, ObjectNotFoundError
from spark_eos.storage.objects.clients import check_process
from spark_eos.storage.objects.responses import Disposition, Response, meaning, read_response, response_error
from spark_eos.storage.objects.rights import needed_right
from spark_eos.storage.settings import Settings

T = TypeVar("T")

RETRY_S = 8.0
"""After so many seconds nothing is tried again. A commit goes on trying longer, see `spark_eos.log.commit.loop`."""

_FIRST_WAIT_S = 0.05
_LONGEST_WAIT_S = 1.0
_CHANCE = random.SystemRandom()  # see `spark_eos.log.clock`: not the application's generator

_MAKING = frozenset({"create", "overwrite", "upload"})
"""They need nothing to be there."""

_AGAIN = frozenset({Disposition.RETRYABLE, Disposition.AMBIGUOUS, Disposition.CONFLICT})


class Requests:
    """Requests to the store at ``url``; errors never show the secrets of ``settings``."""

    def __init__(self, url: str, settings: Settings, retry_s: float = RETRY_S) -> None:
        self._url = url
        self._settings = settings
        self._retry_s = retry_s

    def ask(
        self,
        verb: str,
        name: str,
        call: Callable[[], T],
        *,
        changes: bool = False,
        beyond: Any = None,
        conflict: Callable[[], bool] | None = None,
    ) -> T:
        """The answer to a request, which is sent again for `RETRY_S` if it makes sense.

        ``changes``: a try without a reply may have done its work. ``beyond``: the answer for a range after the
        end. ``conflict``: asked after a 409 whether the name is taken.
        """
        check_process(self._url)
        deadline = time.monotonic() + self._retry_s
        in_doubt = False
        wait_s = _FIRST_WAIT_S
        while True:
            try:
                return call()
            except (TypeError, AttributeError):
                raise  # Our own mistake, and no reply.
            except Exception as error:  # noqa: BLE001  (the library's errors have no common root)
                reply = read_response(error)
            # From here on outside of the block: the library's texts must not hang on to ours.
            disposition = meaning(reply)
            if disposition is Disposition.EXISTS and conflict is None:
                disposition = Disposition.CONFLICT  # Nothing was asked on a condition.
            in_doubt = in_doubt or (changes and disposition is Disposition.AMBIGUOUS)
            if disposition is Disposition.OUT_OF_RANGE and beyond is not None:
                return beyond  # type: ignore[no-any-return]  # it is what the caller wants for a T
            if disposition is Disposition.EXISTS or (
                disposition is Disposition.CONFLICT and conflict is not None and conflict()
            ):
                raise ObjectExistsError(
                    f"{self._where(name)}: cannot {verb}: it exists already; read it to see whose it is"
                )
            if disposition not in _AGAIN or time.monotonic() + wait_s > deadline:
                raise self._failure(reply, verb, name, in_doubt=in_doubt)
            time.sleep(wait_s * _CHANCE.uniform(0.5, 1))
            wait_s = min(2 * wait_s, _LONGEST_WAIT_S)

    def ask_once(self, name: str, call: Callable[[], T], *, ends: bool = False) -> T:
        """The answer to a part of an upload, which the library tries again by itself. ``ends``: it is the last one."""
        check_process(self._url)
        try:
            return call()
        except Exception as error:  # noqa: BLE001  (the library's errors have no common root)
            reply = read_response(error)
        certain = meaning(reply) is Disposition.REJECTED and not reply.was_retried
        raise self._failure(reply, "upload", name, in_doubt=ends and not certain)

    def _failure(self, reply: Response, verb: str, name: str, *, in_doubt: bool = False) -> EosLogError:
        if meaning(reply) is Disposition.NOT_FOUND and verb not in _MAKING:
            return ObjectNotFoundError(
                f"{self._where(name)}: there is no such object; check the name and the URL"
            )
        reply = reply._replace(message=self._settings.scrub(reply.message))
        right = needed_right(self._url, verb)
        return response_error(reply, verb, self._where(name), in_doubt=in_doubt, right=right)

    def _where(self, name: str) -> str:
        return f"{self._url}/{name}" if name else self._url
