"""A schema registry for tests: the part of Confluent's API that serializers use, on loopback."""

from __future__ import annotations

import base64
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote


class RegistryServer:
    """Schemas by id and by subject. ``user_info`` is asked for if given; ``down``: all answers have this status.

    ``is_cut``: connections end in the middle of answers. ``instead`` is answered in place of what was asked for.
    ``elsewhere`` is the URL to which all calls are redirected.
    """

    def __init__(self, user_info=None):
        self.by_id: dict[int, dict] = {}
        self.subjects: dict[str, list[int]] = {}
        self.calls: list[tuple[str, str]] = []
        self.user_info = user_info
        self.down, self.is_cut = 0, False
        self.instead: object = None
        self.elsewhere = ""
        self.authorizations: list[str | None] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                self._answer(server.get(self.path.partition("?")[0]))

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                self._answer(server.post(self.path.partition("?")[0], body))

            def _answer(self, found):
                server.calls.append((self.command, self.path))
                server.authorizations.append(self.headers.get("Authorization"))
                if server.elsewhere:
                    self.send_response(302)
                    self.send_header("Location", server.elsewhere + self.path)
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return
                status = 200 if found is not None else 404
                wanted = server.user_info and "Basic " + base64.b64encode(server.user_info.encode()).decode()
                if server.down:
                    status, found = server.down, {"message": "down"}
                elif wanted and self.headers.get("Authorization") != wanted:
                    status, found = 401, {"error_code": 401, "message": "Unauthorized"}
                if status == 200 and server.instead is not None:
                    found = server.instead
                data = json.dumps(found or {"error_code": 40403, "message": "Schema not found"}).encode()
                self.send_response(status)
                if server.is_cut:
                    self.send_header("Transfer-Encoding", "chunked")
                    self.end_headers()
                    self.wfile.write(b"ff\r\n{")
                    return
                self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_):
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_port}"
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02})

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def add(self, subject, schema, kind="AVRO", references=()):
        """The id of a schema. An equal one has the id that it has."""
        body = {"schema": schema if isinstance(schema, str) else json.dumps(schema), "schemaType": kind}
        if references:
            body["references"] = list(references)
        number = next((known for known, one in self.by_id.items() if one == body), 100 + len(self.by_id))
        self.by_id[number] = body
        versions = self.subjects.setdefault(subject, [])
        if number not in versions:
            versions.append(number)
        return number

    def post(self, path, body):
        parts = path.strip("/").split("/")
        if parts[0] != "subjects":
            return None
        kind = body.get("schemaType") or "AVRO"
        number = self.add(parts[1], body["schema"], kind, body.get("references") or ())
        version = self.subjects[parts[1]].index(number) + 1
        return {"id": number, "subject": parts[1], "version": version, **self.by_id[number]}

    def get(self, path):
        match [*map(unquote, path.strip("/").split("/"))]:
            case ["schemas", "ids", number]:
                return self.by_id.get(int(number))
            case ["subjects", subject, "versions", version] if subject in self.subjects:
                known = self.subjects[subject]
                place = len(known) if version == "latest" else int(version)
                number = known[place - 1]
                return {"subject": subject, "version": place, "id": number, **self.by_id[number]}
        return None
