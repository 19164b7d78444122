"""The peers' jars: a Kafka broker with its tools, and what Spark needs to talk to Kafka and to write Delta tables.

Maven brings them by their coordinates, once, into a folder of the user's cache.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

__all__ = ["BROKER", "CONNECTORS", "DELTA", "Missing", "cache", "fetch", "versions"]

BROKER = (
    "org.apache.kafka:kafka_2.13:4.3.1",
    "org.apache.kafka:kafka-tools:4.3.1",
    "org.apache.logging.log4j:log4j-slf4j-impl:2.25.3",
)
"""With everything that they depend on."""

CONNECTORS = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    # The one of 4.2.0 is not in every Maven mirror; the connector needs of it only what has not changed.
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.2",
    "org.apache.commons:commons-pool2:2.13.1",
)
"""Each by itself: Spark brings the rest."""

DELTA = (
    "io.delta:delta-spark_4.2_2.13:4.4.0",
    "io.delta:delta-storage:4.4.0",
    "io.delta:delta-kernel-api:4.4.0",
    "io.delta:delta-kernel-defaults:4.4.0",
    "io.delta:delta-kernel-unitycatalog:4.4.0",
    "io.unitycatalog:unitycatalog-client:0.6.0",
)
"""Each by itself: Spark brings the rest."""

_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>bench</groupId>
  <artifactId>{name}</artifactId>
  <version>1</version>
  <dependencies>{dependencies}
  </dependencies>
</project>
"""

_DEPENDENCY = """
    <dependency>
      <groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>{alone}
    </dependency>"""

_ALONE = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"


class Missing(Exception):  # noqa: N818  (it is no error: the peer is left out)
    """Something that a peer needs is not there; the text says what, for the user and for the page."""


def cache() -> Path:
    """Where jars are kept from run to run."""
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "spark_eos-bench"


def fetch(name: str, artifacts: tuple[str, ...], *, alone: bool) -> list[Path]:
    """The jars of ``artifacts``, ``alone`` or with what they depend on. Raises `Missing`.

    Downloaded the first time, and again when the list has changed.
    """
    folder = cache() / name
    pom = _POM.format(
        name=name,
        dependencies="".join(
            _DEPENDENCY.format(*artifact.split(":"), alone=_ALONE if alone else "") for artifact in artifacts
        ),
    )
    done = folder / "pom.xml"
    if not done.exists() or done.read_text() != pom:
        _download(folder, pom, name)
    return sorted((folder / "jars").glob("*.jar"))


def _download(folder: Path, pom: str, name: str) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise Missing(
            f"the jars of {name} come by Maven, and there is no mvn on the PATH: install it (Debian, Ubuntu: sudo "
            "apt-get install maven; macOS: brew install maven)"
        )
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    asked = folder / "asked.xml"
    asked.write_text(pom)
    command = [maven, "-q", "-B", "-f", str(asked), "dependency:copy-dependencies"]
    command += ["-DincludeScope=runtime", f"-DoutputDirectory={folder / 'jars'}"]
    print(f"fetching the jars of {name} with Maven ...", flush=True)
    run = subprocess.run(command, check=False, capture_output=True, text=True)  # noqa: S603
    if run.returncode:
        raise Missing(f"Maven could not fetch the jars of {name}: {(run.stdout + run.stderr).strip()[-600:]}")
    # Under its own name last: a download that was broken off is begun again.
    asked.rename(folder / "pom.xml")


def versions() -> list[str]:
    """What the peers are, for the page."""
    named = (BROKER[0], CONNECTORS[0], CONNECTORS[2], DELTA[0])
    return [" ".join(artifact.split(":")[1:]) for artifact in named]
