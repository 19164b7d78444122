"""Which right of a store each request needs, in the words of the store's own policies."""

from __future__ import annotations

from spark_eos.storage.objects.clients import SCHEMES

_LISTED = "s3:ListBucket on the bucket for this path"

_RIGHTS: dict[str, dict[str, str]] = {
    "s3": {
        # Without the right to list, S3 answers 403 and not 404 for an object that is missing.
        "read": f"s3:GetObject on it, and {_LISTED}",
        "look at": f"s3:GetObject on it, and {_LISTED}",
        "list": _LISTED,
        "create": "s3:PutObject on it",
        "overwrite": "s3:PutObject on it",
        "upload": "s3:PutObject on it",
        "delete": "s3:DeleteObject on it",
    },
    "adls": {
        "read": "blobs/read on it (r in a signature)",
        "look at": "blobs/read on it (r in a signature)",
        "list": "blobs/read on the container (l in a signature)",
        "create": "blobs/add/action or blobs/write on it (c or w in a signature)",
        "overwrite": "blobs/write on it (w in a signature)",
        "upload": "blobs/add/action or blobs/write on it (c or w in a signature)",
        "delete": "blobs/delete on it (d in a signature)",
    },
    "gcs": {
        "read": "storage.objects.get on it",
        "look at": "storage.objects.get on it",
        "list": "storage.objects.list on the bucket for this path",
        "create": "storage.objects.create on it",
        "overwrite": "storage.objects.create and storage.objects.delete on it",
        "upload": "storage.objects.create on it",
        "delete": "storage.objects.delete on it",
    },
}


def needed_right(url: str, verb: str) -> str:
    """What a policy has to allow for ``verb`` in the store at ``url``; empty for a store that is not known."""
    cloud = SCHEMES.get(url.partition(":")[0].lower(), "")
    return _RIGHTS.get(cloud, {}).get(verb, "")
