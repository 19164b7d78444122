"""The live page answers, and the full-screen view shows a log."""

import asyncio
import json
import subprocess
import sys
import urllib.request
from pathlib import Path

from spark_eos import Log, Producer
from spark_eos.extensions.ui.top.view import Top
from spark_eos.monitoring import Watch

with Producer("log") as producer:
    producer.send("orders", b"one")

command = [Path(sys.executable).with_name("eoslog"), "ui", "log", "--json"]
with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
    assert server.stdout is not None
    url = json.loads(server.stdout.readline())["url"]
    with urllib.request.urlopen(url, timeout=60) as page:
        assert b"<html" in page.read()
    server.terminate()


async def look() -> None:
    watch = Watch(Log.open("log"))
    async with Top(watch, watch.look(), 60.0).run_test() as pilot:
        await pilot.press("q")


asyncio.run(look())
