"""What a reply of an object store means: which error to raise, and which requests certainly did nothing.

Of what a store says, its status, its error code and its one sentence are kept. The rest of the body stays
out of our errors: some stores send back what was signed, with tokens in it.
"""

from __future__ import annotations

import re
from enum import Enum, auto
from typing import NamedTuple

from spark_eos.errors import (
    EosLogError,
    InvalidRequestError,
    OutcomeUnknownError,
    StorageError,
    StoreFullError,
    StorePermissionError,
    StoreUnavailableError,
    UnsupportedStoreError,
)


class Disposition(Enum):
    """What is known after a request that did not succeed."""

    EXISTS = auto()
    """The condition of a create was not met: the name is taken."""
    CONFLICT = auto()
    """Another request for the same name got in the way; this one did nothing."""
    NOT_FOUND = auto()
    """There is no such object."""
    OUT_OF_RANGE = auto()
    """The object ends before the range that was asked for."""
    RETRYABLE = auto()
    """This one did nothing, and another try may succeed."""
    AMBIGUOUS = auto()
    """It is unknown what it did, or will yet do; another try may succeed."""
    REJECTED = auto()
    """It did nothing, and neither would another one."""


class Response(NamedTuple):
    """What came back: ``status`` is None if nothing did, and ``kind`` then says what happened instead."""

    status: int | None
    code: str
    message: str
    kind: str
    is_about_credentials: bool = False
    """It came from the provider of credentials, before anything was asked of the store."""
    was_retried: bool = False
    """The library had tried before, and may have been served."""

    @property
    def said(self) -> str:
        """In one line, for an error's text."""
        if self.status is None:
            return self.message or "no reply"
        return " ".join(part for part in (str(self.status), self.code, self.message) if part)


_STATUS = re.compile(r"Server returned (?:non-2xx status code|error response): *([0-9]{3})?")
_IN_BULK = re.compile(r"Bulk delete request failed for key .*?: (.*) \(code: ([0-9]{3})\)", re.DOTALL)
"""Azure's deletes are sent in batches, of one: its own reply is a part of the batch's, which has no code."""
_RETRIED = re.compile(r", after [1-9][0-9]* retries")
_KIND = re.compile(r"HttpError \{\s*kind: ([A-Za-z]+)")
_CODE = re.compile(r"<Code>\s*([^<]{1,100}?)\s*</Code>")
_MESSAGE = re.compile(r"<Message>\s*([^<]{1,2000}?)\s*</Message>")
_JSON_MESSAGE = re.compile(r'"message":\s*"((?:[^"\\]|\\.){1,500})"')
_INNERMOST = re.compile(r'(?:message|error): "((?:[^"\\]|\\.)*)"')
_TLS = re.compile(
    r"InvalidCertificate\(\s*(?:Other\(\s*OtherError\(\s*)?([A-Za-z]+)|"
    r"invalid peer certificate: ([A-Za-z]+)|(AlertReceived\([A-Za-z]+)"
)
_CREDENTIALS = re.compile(
    r"//169\.254\.|//metadata|/oauth2/|//sts\.|/security-credentials|/latest/api/token|/computeMetadata/"
)
"""In the addresses of those who give credentials out."""

_URL = re.compile(r"https?://\S+")
"""It may be signed; the store's own URL is in our text."""
_MESSAGE_CHARACTERS = 300

_PLAIN_STATUS = {
    "PermissionDeniedError": 403,
    "UnauthenticatedError": 401,
    "FileNotFoundError": 404,
    "NotFoundError": 404,
    "PreconditionError": 412,
    "NotModifiedError": 304,
}
"""Errors of the library that say the status by their type, should their text not."""


def read_response(error: BaseException) -> Response:
    """What the library's ``error`` tells of the reply."""
    text = str(error)
    shown, _, debug = text.partition("\n\nDebug source:\n")
    status_match = _STATUS.search(shown)
    status = (
        int(status_match[1]) if status_match and status_match[1] else _PLAIN_STATUS.get(type(error).__name__)
    )
    in_bulk = _IN_BULK.search(shown)
    if in_bulk:
        return Response(int(in_bulk[2]), "", in_bulk[1].split("\n")[0][:_MESSAGE_CHARACTERS], "")
    code, message = _CODE.search(text), _MESSAGE.search(text) or _JSON_MESSAGE.search(text)
    kind = _KIND.search(debug)
    credentials, retried = _CREDENTIALS.search(shown) is not None, _RETRIED.search(shown) is not None
    if status is None and status_match is None and not code:
        return Response(None, "", _failure(shown, debug), kind[1] if kind else "", credentials, retried)
    # "200 with an error in it" has no number in its text.
    return Response(
        200 if status is None else status,
        code[1] if code else "",
        message[1].split("\n")[0][:_MESSAGE_CHARACTERS] if message else "",
        "",
        credentials,
        retried,
    )


def _failure(shown: str, debug: str) -> str:
    """Why nothing came back, in the words of the component that failed."""
    tls = _TLS.search(debug)
    if tls:
        return f"TLS: the server's certificate is not trusted ({next(part for part in tls.groups() if part)})"
    innermost = _INNERMOST.findall(debug)
    if innermost:
        return str(innermost[-1])[:_MESSAGE_CHARACTERS]
    if "kind: TimedOut" in debug or "TimedOut" in debug or "kind: Timeout" in debug:
        return "it did not answer in time"
    # The address before it is named by our own text.
    said = shown.split(" - ", 1)[-1].split("\n", maxsplit=1)[0]
    return _URL.sub("…", said)[:_MESSAGE_CHARACTERS]


# -- Meaning ------------------------------------------------------------------------------------------

_BEYOND = "Wanted range starting at"
"""The library's own word, for a server that answers such a range with nothing instead of 416."""
_EXPIRED = {"ExpiredToken", "TokenRefreshRequired", "RequestExpired", "InvalidToken"}
_SKEWED = {"RequestTimeTooSkewed"}
_NO_BUCKET = {
    "NoSuchBucket",
    "ContainerNotFound",
    "InvalidBucketName",
    "ContainerBeingDeleted",
    "ContainerDisabled",
}
_FULL = {"XMinioStorageFull", "QuotaExceeded", "XMinioAdminBucketQuotaExceeded"}
_SURELY_TAKEN = {"BlobAlreadyExists", "PreconditionFailed", "ConditionNotMet", "TargetConditionNotMet"}
_REGION = {
    "AuthorizationHeaderMalformed",
    "PermanentRedirect",
    "IllegalLocationConstraintException",
    "InvalidRegion",
}
_KEYS = {
    "InvalidAccessKeyId",
    "InvalidTokenId",
    "SignatureDoesNotMatch",
    "AuthenticationFailed",
    "InvalidAuthenticationInfo",
}


_BY_STATUS = {
    404: Disposition.NOT_FOUND,
    409: Disposition.CONFLICT,
    416: Disposition.OUT_OF_RANGE,
    429: Disposition.RETRYABLE,
    501: Disposition.REJECTED,
    505: Disposition.REJECTED,
    507: Disposition.REJECTED,
}


def meaning(reply: Response) -> Disposition:
    """What is known after ``reply`` to a single request."""
    status, code = reply.status, reply.code
    if status is None:
        if _BEYOND in reply.message:
            return Disposition.OUT_OF_RANGE
        if reply.message.startswith("TLS:"):
            return Disposition.REJECTED
        # Without a connection nothing was sent. Everything else may have been served.
        return (
            Disposition.RETRYABLE
            if reply.kind == "Connect" or reply.is_about_credentials
            else Disposition.AMBIGUOUS
        )
    if reply.is_about_credentials:
        return Disposition.RETRYABLE if status >= 500 or status == 429 else Disposition.REJECTED
    if code in _NO_BUCKET:
        return Disposition.REJECTED
    if status in {412, 304} or code in _SURELY_TAKEN:
        return Disposition.EXISTS
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    # A gateway may answer any of these for a server that went on working, and a 200 may carry an error.
    if status >= 500 or status in {200, 408} or code == "RequestTimeout":
        return Disposition.AMBIGUOUS
    return Disposition.REJECTED


def response_error(
    reply: Response, verb: str, where: str, *, in_doubt: bool = False, right: str = ""
) -> EosLogError:
    """The error for a request that has failed for good: ``verb`` is what was tried on ``where``.

    ``in_doubt``: it changes something, and one of its tries may have done so, or may yet. ``right``: what it needs.
    """
    said = f"{where}: cannot {verb}: {reply.said.rstrip('.')}"
    if in_doubt:
        return OutcomeUnknownError(
            f"{where}: {verb} may or may not be done: {reply.said}. Repeat the same call to learn it, and delete "
            "nothing that belongs to it before"
        )
    if reply.is_about_credentials:
        kind = StorePermissionError if meaning(reply) is Disposition.REJECTED else StoreUnavailableError
        return kind(
            f"{said}. No credentials were found in settings or environment, and this machine's own service gives none: "
            "set them, or give this machine a role. Nothing was done"
        )
    if meaning(reply) is Disposition.REJECTED:
        return _refusal(reply, said, right)
    return StoreUnavailableError(f"{said}. Nothing was done: see to the network and the store, and try again")


def _refusal(reply: Response, said: str, right: str) -> EosLogError:
    status, code = reply.status, reply.code
    if status is None:
        return StorageError(
            f"{said}. Name the certificate of its issuer (s3.ca-file, adls.ca-file, gcs.ca-file), or use the host's "
            "name as the certificate has it. Nothing was done"
        )
    if code in _NO_BUCKET:
        return StorageError(
            f"{said}. There is no such bucket or container: create it first, or check the URL"
        )
    if code in _FULL or status == 507:
        return StoreFullError(f"{said}. Free space or raise the quota; nothing was written")
    if code in _SKEWED or "skew" in reply.message.lower():
        return StorePermissionError(f"{said}. This machine's clock is wrong: set it (NTP). Nothing was done")
    if code in _EXPIRED or "expired" in reply.message.lower():
        return StorePermissionError(f"{said}. The credentials have expired: renew them. Nothing was done")
    if code in _REGION or status in {301, 307, 308}:
        return StorageError(
            f"{said}. The bucket is in another region or behind another endpoint: set s3.region"
        )
    # Azure says no more of a signature whose time is over; Azurite says it by another code.
    if code in _KEYS or status == 401 or "failed to authenticate" in reply.message.lower():
        return StorePermissionError(
            f"{said}. The credentials are wrong: check key and secret, or the token and how long it is valid. Nothing "
            "was done"
        )
    if status == 403:
        needed = f" They need {right}." if right else ""
        return StorePermissionError(
            f"{said}. The credentials do not allow it.{needed} The policies of conf/policies have what a reader, a "
            "writer and a maintainer of a log need (docs/guide/security.md). Nothing was done"
        )
    if status in {405, 501} or code in {"NotImplemented", "MethodNotAllowed"}:
        return UnsupportedStoreError(
            f"{said}. The store does not know this request, which a log needs: use S3, Azure, Google Cloud "
            "Storage, a recent MinIO, Ceph or R2, or a folder on a local disk or NFS"
        )
    if code in {"KeyTooLongError", "InvalidObjectName", "InvalidResourceName", "InvalidUri"}:
        return InvalidRequestError(f"{said}. Choose a shorter or simpler URL for the log")
    return StorageError(f"{said}. Nothing was done")
