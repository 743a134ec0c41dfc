"""A real Alertmanager (Debian's): it takes our alerts, groups, keeps and resolves them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import shutil
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from fleetpulse.services.deliver import check_targets
from fleetpulse.stack import ports
from runtime.clock import SystemClock
from runtime.config import KafkaConfig
from runtime.delivery_config import DeliveryConfig, TargetConfig
from schemas.contract.alerts import Alert
from sinks.delivery.service import Delivery, run_delivery
from tests.integration.delivery_rig import Receiver, an_alert, tell, until

pytestmark = [pytest.mark.full, pytest.mark.timeout(120)]

PROGRAMS = ("prometheus-alertmanager", "alertmanager")
CONFIG = """
global: {{resolve_timeout: 5m}}
route:
  receiver: hook
  group_by: [fleetpulse_fingerprint]
  group_wait: 100ms
  group_interval: 200ms
  repeat_interval: 1h
receivers:
  - name: hook
    webhook_configs: [{{url: "{url}", send_resolved: true}}]
"""


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with Receiver().standing() as standing:
        yield standing


@pytest.fixture
async def alertmanager(tmp_path: Path, receiver: Receiver) -> AsyncIterator[str]:
    """Its address. It notifies ``receiver``; its data lies in a folder of this test."""
    program = next((found for name in PROGRAMS if (found := shutil.which(name))), None)
    assert program is not None, "no Alertmanager here: install Debian's prometheus-alertmanager"
    (tmp_path / "am.yml").write_text(CONFIG.format(url=receiver.url))
    port = ports.free_ports(1, start=secrets.randbelow(10_000))[0]
    command = [
        program,
        f"--config.file={tmp_path / 'am.yml'}",
        f"--storage.path={tmp_path / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--cluster.listen-address=",
    ]
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        await until(partial(_up, f"http://127.0.0.1:{port}"))
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        await process.wait()


async def _up(url: str) -> bool:
    async with httpx.AsyncClient() as client:
        with contextlib.suppress(httpx.HTTPError):
            return (await client.get(f"{url}/-/ready")).status_code == 200
    return False


async def active(url: str) -> list[dict[str, Any]]:
    """Alerts that it takes for open."""
    async with httpx.AsyncClient() as client:
        found: list[dict[str, Any]] = (await client.get(f"{url}/api/v2/alerts")).json()
        return sorted(found, key=lambda one: one["labels"]["fleetpulse_fingerprint"])


@pytest.fixture
async def kafka(own_kafka: KafkaConfig) -> KafkaConfig:
    return own_kafka


@contextlib.asynccontextmanager
async def delivering(kafka: KafkaConfig, target: TargetConfig) -> AsyncIterator[None]:
    delivery = Delivery(kafka, DeliveryConfig(targets=(target,)), asyncio.Event(), worker="deliver-0")
    task = asyncio.create_task(run_delivery(delivery))
    try:
        await until(partial(_ready, delivery, task))
        yield
    finally:
        delivery.stop.set()
        await asyncio.wait_for(task, 120.0)


async def _ready(delivery: Delivery, task: asyncio.Task[None]) -> bool:
    return delivery.readiness.why() is None or task.done()


def notified(receiver: Receiver) -> list[tuple[str, str]]:
    """(status, fingerprint) of every notification."""
    told = [json.loads(one.body) for one in receiver.requests]
    return [(one["status"], one["groupLabels"]["fleetpulse_fingerprint"]) for one in told]


def now_alert(test: str, fingerprint: str, number: int = 1, transition: str = "opened", **fields: Any) -> Alert:
    now_ms = SystemClock().now_ms()
    times = {"opened_ms": now_ms, "since_ms": now_ms - 5_000, "at_ms": now_ms}
    ended = {"resolved_ms": now_ms} if transition == "resolved" else {}
    return an_alert(test, fingerprint, number, transition, **{**times, **ended, **fields})


async def test_it_receives_groups_keeps_and_resolves(kafka: KafkaConfig, alertmanager: str, receiver: Receiver) -> None:
    """Two causes are two groups; an open alert outlives its time to live because it is sent again, and then ends."""
    test = secrets.token_hex(4)
    one, two = f"{test}0000000a", f"{test}0000000b"
    target = TargetConfig(
        name="am", kind="alertmanager", endpoint_url=alertmanager, match={"test": test}, resend_s=0.5, valid_s=2.5
    )
    async with delivering(kafka, target):
        await tell(kafka, now_alert(test, one, severity="warning"), now_alert(test, two))
        await until(lambda: _is_open(alertmanager, [(one, "warning"), (two, "critical")]))
        await receiver.until(lambda: len(receiver.requests) >= 2)
        assert sorted(notified(receiver)) == [("firing", one), ("firing", two)]
        await asyncio.sleep(3.5)  # longer than an alert lives that nobody tells again
        assert [state["labels"]["fleetpulse_fingerprint"] for state in await active(alertmanager)] == [one, two]
        assert len(receiver.requests) == 2

        await tell(kafka, now_alert(test, one, 2, "updated"))
        await until(lambda: _is_open(alertmanager, [(one, "critical"), (two, "critical")]))
        await tell(kafka, now_alert(test, one, 3, "resolved"), now_alert(test, two, 2, "resolved"))
        await until(lambda: _is_open(alertmanager, []))
        await receiver.until(lambda: {("resolved", one), ("resolved", two)} <= set(notified(receiver)))
        await asyncio.sleep(1.2)

        assert await active(alertmanager) == []
    last = {fingerprint: status for status, fingerprint in notified(receiver)}
    assert last == {one: "resolved", two: "resolved"}


async def _is_open(url: str, expected: list[tuple[str, str]]) -> bool:
    labels = [state["labels"] for state in await active(url)]
    return [(found["fleetpulse_fingerprint"], found["severity"]) for found in labels] == expected


async def test_a_restart_keeps_open_alerts_alive(kafka: KafkaConfig, alertmanager: str, receiver: Receiver) -> None:
    """The open set comes from the topic, and is told before it would have ended; nobody is notified again."""
    test = secrets.token_hex(4)
    target = TargetConfig(
        name="am", kind="alertmanager", endpoint_url=alertmanager, match={"test": test}, resend_s=1, valid_s=8
    )
    async with delivering(kafka, target):
        await tell(kafka, now_alert(test, f"{test}0000000a"))
        await until(lambda: _is_open(alertmanager, [(f"{test}0000000a", "critical")]))
        before = (await active(alertmanager))[0]["endsAt"]
    async with delivering(kafka, target):
        await until(lambda: _told_again(alertmanager, before))

    assert notified(receiver) == [("firing", f"{test}0000000a")]


async def _told_again(url: str, before: str) -> bool:
    return (await active(url))[0]["endsAt"] > before


async def test_the_check_sends_a_test_alert_and_its_end(alertmanager: str) -> None:
    """``fleetpulse deliver --check``: both answered 200, nothing stays open."""
    target = TargetConfig(kind="alertmanager", endpoint_url=alertmanager)

    found = await asyncio.to_thread(check_targets, [target])

    assert [(one.transition, one.response.status) for one in found] == [("opened", 200), ("resolved", 200)]
    assert await active(alertmanager) == []
