"""Requests to the review server as its page sends them."""

from __future__ import annotations

import http.client
import json
from urllib.parse import urlsplit


class Client:
    """Requests as a browser on the page sends them, unless told otherwise."""

    def __init__(self, address):
        parts = urlsplit(address)
        self.host, self.path = parts.netloc, parts.path

    def request(self, method, path, body=None, *, headers=(), whole_path=False):
        """(status, headers, body); a header that is None is left out."""
        all_headers = (
            {"Host": self.host, "Origin": f"http://{self.host}"} if body is not None else {}
        )
        all_headers |= {"Content-Type": "application/json"} if body is not None else {}
        all_headers |= dict(headers)
        connection = http.client.HTTPConnection(self.host, timeout=20)
        try:
            connection.putrequest(
                method, path if whole_path else self.path + path, skip_host="Host" in all_headers
            )
            content = body if isinstance(body, bytes) else json.dumps(body).encode()
            if body is not None:
                all_headers.setdefault("Content-Length", str(len(content)))
            for name, value in all_headers.items():
                if value is not None:
                    connection.putheader(name, value)
            connection.endheaders(content if body is not None else None)
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        finally:
            connection.close()

    def get(self, path, **options):
        return self.request("GET", path, **options)

    def json(self, path):
        status, _, body = self.get(path)
        assert status == 200, body
        return json.loads(body)

    def post(self, path, body, **options):
        status, _, answer = self.request("POST", path, body, **options)
        return status, json.loads(answer) if answer.startswith(b"{") else answer

    def decide(self, *items, seen_versions=None, reviewer="ana", **options):
        body = {"items": items, "seen": seen_versions or {}, "reviewer": reviewer, "tab": "t"}
        return self.post("api/decide", body, **options)
