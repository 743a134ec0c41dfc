"""Pods by name, and engines in them, from an API that answers as Kubernetes does. Covers producers.kubernetes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from producers.agent.search import find, plans_of, setting_of
from producers.agent.sources import Setting
from producers.engines.processes import ProcessTable
from runtime.edge_config import AgentConfig, CollectorSwitches
from tests.integration.engine_like_vllm import Engine
from tests.unit.producers.kubernetes.pod_lists import RECORDED, list_of, pod_of


class Api(BaseHTTPRequestHandler):
    """Lists pods to who has the token."""

    pods = RECORDED.read_bytes()
    asked: list[str] = []  # noqa: RUF012

    def do_GET(self) -> None:
        self.asked.append(self.path)
        allowed = self.headers.get("Authorization") == "Bearer right"
        body = self.pods if allowed else b'{"kind":"Status","status":"Failure","reason":"Forbidden","code":403}'
        self.send_response(200 if allowed else 403)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


@contextmanager
def served(handler: type[BaseHTTPRequestHandler]) -> Iterator[int]:
    """On a port of its own."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def api() -> Iterator[int]:
    """Its port."""
    Api.pods, Api.asked = RECORDED.read_bytes(), []
    with served(Api) as port:
        yield port


def config_of(port: int, token: Path) -> AgentConfig:
    switches = dict.fromkeys(CollectorSwitches.model_fields, "off") | {"kubernetes": "auto"}
    kubernetes = {
        "pods_url": f"http://127.0.0.1:{port}/api/v1/pods?fieldSelector=spec.nodeName%3Dn&resourceVersion=0",
        "token_file": token,
    }
    return AgentConfig.model_validate({"host": "n", "collectors": switches, "kubernetes": kubernetes})


def collectors(setting: Setting) -> dict[str, Any]:
    """Of the source, by name."""
    return {plan.name: plan.make() for plan in plans_of(setting, find(setting))}


def test_pods_are_named_by_what_the_api_lists(api: int, tmp_path: Path) -> None:
    """With the account's token, which is read at every listing: it changes while the agent runs."""
    token = tmp_path / "token"
    token.write_text("right\n")
    setting = setting_of(config_of(api, token))
    (finding,) = [each for each in find(setting) if each.chosen]
    lister = collectors(setting)["pods"]
    token.write_text("old")
    lister.collect(0)
    before = setting.identity.pod_of("b66c40af-997d-11e8-96a3-42010a840157")
    token.write_text("right")

    lister.collect(30_000)

    assert finding.reason == "2 pods of this node, 0 of them engines"
    assert before == {"pod_name": None, "pod_namespace": None}
    assert setting.identity.pod_of("b66c40af-997d-11e8-96a3-42010a840157") == {
        "pod_name": "datadog-agent-pbqt2",
        "pod_namespace": "default",
    }
    assert Api.asked == ["/api/v1/pods?fieldSelector=spec.nodeName%3Dn&resourceVersion=0"] * 4


def test_an_account_without_the_right_is_told_what_to_grant(api: int, tmp_path: Path) -> None:
    """By the probe, and nothing is collected."""
    (finding,) = [each for each in find(setting_of(config_of(api, tmp_path / "absent"))) if each.name == "kubernetes"]

    assert not finding.chosen
    assert "answered 403: grant list of pods (ClusterRole fleetpulse-agent" in finding.reason


def test_an_engine_in_a_pod_is_scraped_and_known_by_its_pod(api: int, tmp_path: Path) -> None:
    """At the pod's address, under which clients reach it; when the pod goes, so does the engine."""
    token = tmp_path / "token"
    token.write_text("right")
    setting = setting_of(config_of(api, token))
    made = collectors(setting)
    with served(Engine) as port:
        marks = {"fleetpulse-addresses": "tiny.serving.svc:80"}
        Api.pods = list_of(
            pod_of("tiny-0", "vllm/vllm-openai", ip="127.0.0.1", ports=[{"containerPort": port}], annotations=marks)
        )
        made["pods"].collect(0)
        made["pod engines"].collect(1_000)
        setting.registry.saw_processes(ProcessTable())  # until then an engine is not announced
        rows = [row for part in made["pod engines"].collect(2_000) for row in part.rows]
        engine = setting.registry.engines.directory.at("tiny.serving.svc:80")
        Api.pods = list_of()
        made["pods"].collect(30_000)
        gone = made["pod engines"].collect(31_000)
    made["pod engines"].close()

    assert {row["engine_id"] for row in rows} == {f"serving/tiny-0:{port}"}
    assert {row["model"] for row in rows} == {"tiny"}
    assert engine is not None
    assert (engine.engine_id, engine.engine_kind) == (f"serving/tiny-0:{port}", "vllm")
    assert gone == []
    assert not setting.registry.has_engines
