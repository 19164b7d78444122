"""Real servers for tests, on loopback: MinIO, which speaks S3, and Azurite, which speaks Azure Blob Storage.

``scripts/servers`` installs them under ``~/.cache/spark_eos/servers``; those on the PATH will do as well.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import shutil
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from email.utils import formatdate
from pathlib import Path
from typing import NamedTuple

from spark_eos.storage.settings import Settings

HOME = Path(os.environ.get("SPARK_EOS_SERVERS") or Path.home() / ".cache" / "spark_eos" / "servers")
MINIO = ("minio", HOME / "minio")
AZURITE = ("azurite-blob", HOME / "azurite" / "node_modules" / ".bin" / "azurite-blob")

_USER, _PASSWORD = "minio-user", "minio-secret-of-the-tests"
_ACCOUNT = "devstoreaccount1"
_ACCOUNT_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""Azurite's own, the same everywhere."""

_START_S = 300.0


_VARIABLES = {
    "s3.endpoint": "AWS_ENDPOINT_URL",
    "s3.access-key-id": "AWS_ACCESS_KEY_ID",
    "s3.secret-access-key": "AWS_SECRET_ACCESS_KEY",
    "adls.endpoint": "AZURE_STORAGE_ENDPOINT",
    "adls.account-name": "AZURE_STORAGE_ACCOUNT_NAME",
    "adls.account-key": "AZURE_STORAGE_ACCOUNT_KEY",
}


class Server(NamedTuple):
    """A server that runs: its address, the URL of an empty bucket in it, and the settings to get there."""

    address: str
    url: str
    settings: Settings
    process: subprocess.Popen[bytes]

    @property
    def environ(self) -> dict[str, str]:
        """The settings, for programs that take them from the environment."""
        return {_VARIABLES[name]: value for name, value in self.settings.items()}


def installed(server: tuple[str, Path]) -> str | None:
    """The command of a server, `MINIO` or `AZURITE`; None if it is not here."""
    name, path = server
    return str(path) if os.access(path, os.X_OK) else shutil.which(name)


@contextmanager
def minio(folder: Path, bucket: str = "bucket", *, certificates: Path | None = None) -> Iterator[Server]:
    """MinIO with its data in ``folder`` until the context ends; with TLS if it is given ``certificates``."""
    command = installed(MINIO)
    assert command, "MinIO is not installed: scripts/servers"
    (folder / bucket).mkdir(parents=True)
    port = free_port()
    address = f"{'https' if certificates else 'http'}://127.0.0.1:{port}"
    arguments = [
        "server",
        str(folder),
        "--address",
        f"127.0.0.1:{port}",
        "--console-address",
        "127.0.0.1:0",
        "--quiet",
    ]
    if certificates:
        arguments += ["--certs-dir", str(certificates)]
    environ = {
        "MINIO_ROOT_USER": _USER,
        "MINIO_ROOT_PASSWORD": _PASSWORD,
        "MINIO_BROWSER": "off",
        "CI": "true",
    }
    settings = {"s3.endpoint": address, "s3.access-key-id": _USER, "s3.secret-access-key": _PASSWORD}
    with _running([command, *arguments], address, environ) as process:
        yield Server(address, f"s3://{bucket}", Settings(settings), process)


@contextmanager
def azurite(container: str = "container") -> Iterator[Server]:
    """Azurite, with its data in memory, until the context ends."""
    command = installed(AZURITE)
    assert command, "Azurite is not installed: scripts/servers"
    port = free_port()
    arguments = [
        "--blobHost",
        "127.0.0.1",
        "--blobPort",
        str(port),
        "--inMemoryPersistence",
        "--skipApiVersionCheck",
    ]
    address = f"http://127.0.0.1:{port}/{_ACCOUNT}"
    settings = {"adls.endpoint": address, "adls.account-name": _ACCOUNT, "adls.account-key": _ACCOUNT_KEY}
    with _running([command, *arguments, "--silent", "--disableTelemetry"], address, {}) as process:
        make_container(address, container)
        yield Server(address, f"az://{container}", Settings(settings), process)


@contextmanager
def _running(
    command: Sequence[str], address: str, environ: dict[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(  # noqa: S603  (a program that was installed for this)
        command,
        env={**os.environ, **environ},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _await(process, command[0], address)
        yield process
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _await(process: subprocess.Popen[bytes], name: str, address: str) -> None:
    """Return as soon as the server answers, be it with an error.

    MinIO says that it is ready, and for a moment that all who sign may try again: it does not know its users yet.
    """
    deadline = time.monotonic() + _START_S
    unverified = ssl._create_unverified_context()  # noqa: S323, SLF001  (on loopback)
    while True:
        assert process.poll() is None, f"{name} ended with {process.returncode} instead of serving"
        assert time.monotonic() < deadline, f"{name} does not answer at {address} after {_START_S} s"
        headers = {"Authorization": "AWS stranger:x", "Date": formatdate(usegmt=True)}
        request = urllib.request.Request(address, headers=headers)  # noqa: S310  (the server's own address)
        try:
            urllib.request.urlopen(request, timeout=2, context=unverified).close()  # noqa: S310
            return
        except urllib.error.HTTPError as error:
            error.close()
            if error.code != 503:
                return
        except OSError:
            pass
        time.sleep(0.05)


def make_container(address: str, container: str) -> None:
    """Make a container in Azurite, if it is not there; an Azurite that was just started is waited for.

    With Azure's signature by hand: the library makes none.
    """
    date, version = formatdate(usegmt=True), "2021-08-06"
    path = f"/{_ACCOUNT}/{container}"
    signed = "\n".join(
        [
            "PUT",
            *[""] * 11,
            f"x-ms-date:{date}",
            f"x-ms-version:{version}",
            f"/{_ACCOUNT}{path}",
            "restype:container",
        ]
    )
    key = base64.b64decode(_ACCOUNT_KEY)
    signature = base64.b64encode(hmac.new(key, signed.encode(), hashlib.sha256).digest()).decode()
    headers = {
        "Authorization": f"SharedKey {_ACCOUNT}:{signature}",
        "x-ms-date": date,
        "x-ms-version": version,
        "Content-Length": "0",
    }
    request = urllib.request.Request(  # noqa: S310  (the server's own address)
        f"{address}/{container}?restype=container", method="PUT", headers=headers
    )
    deadline = time.monotonic() + _START_S
    while True:
        try:
            urllib.request.urlopen(request, timeout=60).close()  # noqa: S310
        except urllib.error.HTTPError as error:
            error.close()
            if error.code != 409:  # It is there.
                raise
        except urllib.error.URLError:
            if time.monotonic() >= deadline:
                raise
            time.sleep(0.1)
            continue
        return


def temporary(server: Server, policy: Mapping[str, object]) -> Settings:
    """Settings with credentials of MinIO that are allowed what ``policy`` says (S3's AssumeRole), for an hour."""
    parameters = {
        "Action": "AssumeRole",
        "Version": "2011-06-15",
        "Policy": json.dumps(policy, separators=(",", ":")),
    }
    body = urllib.parse.urlencode(parameters).encode()
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    headers = {
        "content-type": "application/x-www-form-urlencoded",
        "host": server.address.partition("//")[2],
        "x-amz-content-sha256": hashlib.sha256(body).hexdigest(),
        "x-amz-date": stamp,
    }
    names = ";".join(headers)
    lines = [f"{name}:{value}" for name, value in headers.items()]
    request = "\n".join(["POST", "/", "", *lines, "", names, headers["x-amz-content-sha256"]])
    scope = [stamp[:8], "us-east-1", "sts", "aws4_request"]
    digest = hashlib.sha256(request.encode()).hexdigest()
    signature = b"AWS4" + _PASSWORD.encode()
    for part in (*scope, "\n".join(["AWS4-HMAC-SHA256", stamp, "/".join(scope), digest])):
        signature = hmac.new(signature, part.encode(), hashlib.sha256).digest()
    headers["Authorization"] = (
        f"AWS4-HMAC-SHA256 Credential={_USER}/{'/'.join(scope)}, SignedHeaders={names}, Signature={signature.hex()}"
    )
    http_request = urllib.request.Request(server.address, data=body, headers=headers)  # noqa: S310
    with urllib.request.urlopen(http_request, timeout=60) as answer:  # noqa: S310
        text = str(answer.read().decode())
    settings = dict(server.settings)
    for name, tag in {
        "s3.access-key-id": "AccessKeyId",
        "s3.secret-access-key": "SecretAccessKey",
        "s3.session-token": "SessionToken",
    }.items():
        settings[name] = text.partition(f"<{tag}>")[2].partition("<")[0]
    return Settings(settings)


def shared_access(container: str, permissions: str, *, expires: str = "2099-01-01T00:00:00Z") -> str:
    """A signature for a container of Azurite that allows so much (``rcwdl``), until then."""
    version = "2019-12-12"
    resource = f"/blob/{_ACCOUNT}/{container}"
    signed = [permissions, "", expires, resource, "", "", "", version, "c", *[""] * 6]
    key = base64.b64decode(_ACCOUNT_KEY)
    signature = base64.b64encode(hmac.new(key, "\n".join(signed).encode(), hashlib.sha256).digest()).decode()
    return urllib.parse.urlencode(
        {"sv": version, "sr": "c", "sp": permissions, "se": expires, "sig": signature}
    )


def free_port() -> int:
    """A port of the loopback address for a server that must be told one.

    The system gives it to no other program for a minute: a connection to it was closed on this side. A server may
    listen there all the same, as one does that is started again (``SO_REUSEADDR``).
    """
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()):
        server.accept()[0].close()
        return int(server.getsockname()[1])
