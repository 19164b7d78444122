"""Breaks of object stores: what a reply means, what is tried again, and what is kept secret."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

_REQUESTS, _PARTS = "spark_eos/storage/objects/requests.py", "spark_eos/storage/objects/multipart.py"
_OBJECTS, _REPLIES = "spark_eos/storage/objects/store.py", "spark_eos/storage/objects/responses.py"
_CLOUDS, _SETTINGS = "spark_eos/storage/objects/clients.py", "spark_eos/storage/settings.py"
_URLS = "spark_eos/storage/urls.py"

_OF_ERRORS = ("tests/storage/test_object_errors.py", "-k", "not minio and not certificate")
_OF_CONTRACT = ("tests/storage/test_object_contract.py", "-k", "gcs")
_OF_UPLOADS = ("tests/storage/test_object_uploads.py", "-k", "not azure")
_OF_CLOUDS = ("tests/storage/test_clouds.py",)

MUTANTS = (
    # -- creates -----------------------------------------------------------------------------------------
    Mutant(
        "put-without-condition",
        _OBJECTS,
        'self._client.put(key, body, mode="create", use_multipart=False)',
        'self._client.put(key, body, mode="overwrite", use_multipart=False)',
        "two writers both believe to have created an object",
        _OF_CONTRACT,
    ),
    Mutant(
        "conflict-is-exists",
        _REQUESTS,
        "                disposition is Disposition.CONFLICT and conflict is not None and conflict()\n",
        "                disposition is Disposition.CONFLICT and conflict is not None\n",
        "a create that raced a delete is told that the name is taken, though nothing is there",
        _OF_ERRORS,
    ),
    Mutant(
        "lost-create-is-undone",
        _REQUESTS,
        "in_doubt = in_doubt or (changes and disposition is Disposition.AMBIGUOUS)",
        "in_doubt = False",
        "a create whose reply was lost is called undone for certain",
        _OF_ERRORS,
    ),
    Mutant(
        "only-the-last-try-counts",
        _REQUESTS,
        "in_doubt = in_doubt or (changes and disposition is Disposition.AMBIGUOUS)",
        "in_doubt = changes and disposition is Disposition.AMBIGUOUS",
        "a create that may have been served is called undone because a later try was refused",
        _OF_ERRORS,
    ),
    Mutant(
        "server-errors-are-certain",
        _REPLIES,
        'if status >= 500 or status in {200, 408} or code == "RequestTimeout":',
        'if status in {200, 408} or code == "RequestTimeout":',
        "an internal error of the store counts as a refusal, and is not tried again",
        _OF_ERRORS,
    ),
    Mutant(
        "every-failure-is-certain",
        _REPLIES,
        "            else Disposition.AMBIGUOUS\n",
        "            else Disposition.RETRYABLE\n",
        "a request whose connection ended counts as never served",
        _OF_ERRORS,
    ),
    Mutant(
        "refusals-again-and-again",
        _REQUESTS,
        "if disposition not in _AGAIN or time.monotonic() + wait_s > deadline:",
        "if time.monotonic() + wait_s > deadline:",
        "what the store refuses is asked again for seconds",
        _OF_ERRORS,
    ),
    Mutant(
        "conditions-on-reads",
        _REQUESTS,
        "if disposition is Disposition.EXISTS and conflict is None:",
        "if False:",
        "a read is answered with: it exists already",
        _OF_ERRORS,
    ),
    Mutant(
        "no-bucket-is-no-object",
        _REPLIES,
        "    if code in _NO_BUCKET:\n        return Disposition",
        "    if False:\n        return Disposition",
        "a bucket that is not there looks like an empty one",
        _OF_ERRORS,
    ),
    # -- uploads -----------------------------------------------------------------------------------------
    Mutant(
        "parts-over-an-object",
        _PARTS,
        "        if is_taken:\n            self.abort()\n",
        "        if False:\n            self.abort()\n",
        "an upload in parts overwrites what is there",
        _OF_UPLOADS,
    ),
    Mutant(
        "parts-left-behind",
        _OBJECTS,
        "        except BaseException:\n            parts.abort()\n            raise\n",
        "        except BaseException:\n            raise\n",
        "an upload that failed leaves its parts in the bucket",
        _OF_ERRORS,
    ),
    # -- lists and ranges --------------------------------------------------------------------------------
    Mutant(
        "list-begins-anew",
        _OBJECTS,
        "self._client.list(folder, offset=last, chunk_size=_LIST_PAGE)",
        "self._client.list(folder, chunk_size=_LIST_PAGE)",
        "a list that was interrupted shows names twice",
        _OF_ERRORS,
    ),
    Mutant(
        "list-by-folder",
        _OBJECTS,
        "if name.startswith(prefix) and is_legal_name(name)",
        "if is_legal_name(name)",
        "a list shows what does not begin with the prefix",
        _OF_CONTRACT,
    ),
    Mutant(
        "range-behind-the-end",
        _REQUESTS,
        "if disposition is Disposition.OUT_OF_RANGE and beyond is not None:",
        "if False:",
        "a range after the end of an object is an error",
        _OF_CONTRACT,
    ),
    # -- secrets and settings ----------------------------------------------------------------------------
    Mutant(
        "secrets-shown",
        _SETTINGS,
        'f"{name}={HIDDEN if store_option(name).is_secret else repr(safe_url(value))}"',
        'f"{name}={value!r}"',
        "whoever prints options reads the secrets in them",
        _OF_CLOUDS,
    ),
    Mutant(
        "secrets-in-errors",
        _REQUESTS,
        "reply = reply._replace(message=self._settings.scrub(reply.message))",
        "reply = reply._replace(message=reply.message)",
        "a store that sends secrets back puts them into our errors",
        _OF_ERRORS,
    ),
    Mutant(
        "one-store-for-all-identities",
        _URLS,
        "store = _SHARED.get((url, settings)) if isinstance(url, str) else None",
        "store = next((s for (u, _), s in _SHARED.items() if u == url), None)",
        "who comes with other credentials gets the connections of somebody else",
        _OF_CLOUDS,
    ),
    Mutant(
        "environment-mixed-in",
        _CLOUDS,
        "config, profile.credentials if profile.key else None, endpoint",
        "config, None, endpoint",
        "keys that were given are not used, or with the token of another identity",
        _OF_CLOUDS,
    ),
    Mutant(
        "plain-http-for-all",
        _CLOUDS,
        '"allow_http": (endpoint or "").lower().startswith("http://"),',
        '"allow_http": True,',
        "a client that was given https may be led to plain HTTP",
        _OF_CLOUDS,
    ),
    Mutant(
        "forked-and-waiting",
        _CLOUDS,
        "if _process[0] != os.getpid():",
        "if False:",
        "a forked process waits for ever",
        ("tests/storage/test_object_errors.py", "-k", "forked"),
    ),
)
