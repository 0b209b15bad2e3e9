"""The audit of pinned packages in CI, against a service of our own with one known vulnerability."""

from __future__ import annotations

import importlib.util
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

pytest.importorskip("pip_audit")

SCRIPT = Path(__file__).parents[1] / ".ci" / "audit.py"


@pytest.fixture
def audit():
    spec = importlib.util.spec_from_file_location("audit", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Service(BaseHTTPRequestHandler):
    """Answers as api.osv.dev does: one version of one package has a hole."""

    def do_POST(self):
        question = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        name, version = question["package"]["name"], question["version"]
        versions = {"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "2.0"}]}
        package = {"name": name, "ecosystem": "PyPI"}
        hole = {
            "id": "PYSEC-1", "aliases": ["CVE-1"], "summary": "a hole", "details": "a hole",
            "affected": [{"package": package, "ranges": [versions]}],
        }  # fmt: skip
        answer = {"vulns": [hole]} if (name, version) == ("leaky", "1.0") else {}
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def service():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Service)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield ["--vulnerability-service", "osv", "--osv-url", f"http://127.0.0.1:{server.server_port}/"]
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_known_vulnerability_fails_and_nothing_else_does(audit, service, tmp_path, capsys):
    pins = tmp_path / "constraints.txt"
    pins.write_text("# pinned\nleaky==2.0\nsound==1.0\n")
    assert audit.audit(pins, [service]) == 0
    assert capsys.readouterr().out == "2 packages, none vulnerable\n"
    pins.write_text("leaky==1.0\nsound==1.0\n")
    assert audit.audit(pins, [service]) == 1
    assert capsys.readouterr().out == "leaky 1.0: PYSEC-1, mended in 2.0\n"
    audit.IGNORED["CVE-1"] = "its reason"
    assert audit.audit(pins, [service]) == 0


def test_a_service_out_of_reach_is_said_and_fails_nothing(audit, tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    pins = tmp_path / "constraints.txt"
    pins.write_text("leaky==1.0\n")
    options = ["--vulnerability-service", "osv", "--osv-url", "http://127.0.0.1:9/"]
    assert audit.audit(pins, [options]) == 0
    assert capsys.readouterr().out.startswith("WARNING: NOTHING WAS AUDITED")
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    assert audit.audit(pins, [options]) == 0
    assert "\n::warning title=pip-audit::NOTHING WAS AUDITED" in capsys.readouterr().out


def test_an_audit_without_its_tool_fails(audit, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(audit, "find_spec", lambda _name: None)
    assert audit.audit(tmp_path / "constraints.txt") == 1
    assert "pip-audit is not installed" in capsys.readouterr().out


def test_every_pinned_package_is_asked_for_once(audit):
    names = [pin.partition("==")[0].lower() for pin in audit.collect_pins(audit.ROOT)]
    assert len(names) == len(set(names)) > 150
    assert {"torch", "numpy", "mkdocs"} <= set(names)
