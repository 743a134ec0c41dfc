"""examples/drain_engine.py over the alerts that the job makes: which engines stand outside the router."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import orjson
from aiokafka import TopicPartition

from schemas.contract.alerts import Alert, encode
from tests.unit.stream_jobs.alerts.cases import Scene

Out = dict[str, set[str]]
EXAMPLE = Path(__file__).resolve().parents[4] / "examples" / "drain_engine.py"


def example() -> Any:
    spec = spec_from_file_location("drain_engine", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def drained(alerts: Iterable[Alert]) -> list[set[str]]:
    """Engines that are out of the router after each of these records."""
    moves, known, away, found = example().moves, Out(), set[str](), list[set[str]]()
    for alert in alerts:
        action, engines = moves(orjson.loads(encode(alert)), known)
        away = away | {*engines} if action == "drain" else away - {*engines}
        found.append(away)
    return found


def test_engines_of_one_host_that_lose_gpus_are_all_out_until_that_is_over() -> None:
    """Half of its GPUs make one alert, whose labels name the host alone."""
    scene, both = Scene(), {"h-1/e-0", "h-1/e-1"}

    first, second = scene.gpu_event("gpu_lost", "g-10"), scene.gpu_event("gpu_lost", "g-12")
    for gpu in ("g-10", "g-12"):
        scene.gpu_event("gpu_found", gpu, severity="info")
    scene.pass_windows(20)

    assert "engine_id" not in second[-1].labels
    assert drained(scene.told) == [{"h-1/e-0"}, both, *[both] * (len(scene.told) - 3), set()]
    assert [one.transition for one in (*first, scene.told[-1])] == ["opened", "resolved"]


def test_an_alert_that_becomes_part_of_another_takes_no_engine_back() -> None:
    """It is resolved, and its GPU is still lost."""
    lost = {"fingerprint": "a" * 16, "rule": "gpu_lost", "labels": {"engine_id": "e-1"}, "members": [], "note": ""}
    whole = {**lost, "fingerprint": "b" * 16, "labels": {"host": "h"}}
    moves, known = example().moves, Out()

    steps = [
        moves({**lost, "transition": "opened"}, known),
        moves({**lost, "transition": "resolved", "note": f"came back once; same cause as {'b' * 16}"}, known),
        moves({**whole, "transition": "resolved"}, known),
    ]

    assert steps == [("drain", ["e-1"]), ("drain", ["e-1"]), ("undrain", ["e-1"])]


def test_an_engine_that_two_alerts_took_out_is_back_after_both() -> None:
    """Its GPUs are lost one by one, hours apart."""
    one = {"fingerprint": "a" * 16, "rule": "gpu_lost", "labels": {"engine_id": "e-1"}, "members": [], "note": ""}
    other = {**one, "fingerprint": "b" * 16}
    moves, known = example().moves, Out()
    for alert in (one, other):
        moves({**alert, "transition": "opened"}, known)

    steps = [moves({**alert, "transition": "resolved"}, known) for alert in (one, other)]

    assert steps == [("undrain", []), ("undrain", ["e-1"])]


class Consumer:
    """Of a topic with these alerts (None: a record without value); its group has committed the first ``done``."""

    def __init__(self, alerts: Sequence[dict[str, Any] | None], done: int | None) -> None:
        self.values = [None if one is None else orjson.dumps(one) for one in alerts]
        self.done, self.at, self.commits = done, done or 0, list[int]()

    def assign(self, places: list[TopicPartition]) -> None:
        assert places == [TopicPartition("alerts", 0)]

    async def committed(self, _place: TopicPartition) -> int | None:
        return self.done

    async def seek_to_beginning(self, *_places: TopicPartition) -> None:
        self.at = 0

    async def commit(self) -> None:
        self.commits.append(self.at)

    async def __aiter__(self) -> AsyncIterator[SimpleNamespace]:
        while self.at < len(self.values):
            self.at += 1
            yield SimpleNamespace(offset=self.at - 1, value=self.values[self.at - 1])


async def followed(consumer: Consumer) -> list[tuple[str, str]]:
    """What the router is asked, with the idempotency key."""
    asked: list[tuple[str, str]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append((request.url.path, request.headers["Idempotency-Key"]))
        return httpx.Response(200)

    async with httpx.AsyncClient(base_url="http://router", transport=httpx.MockTransport(answer)) as router:
        await example().follow(consumer, router, "alerts")
    return asked


def of(name: str, transition: str, note: str = "", **labels: str) -> dict[str, Any]:
    """An alert about a lost GPU; ``name`` is one letter."""
    ids = {"fingerprint": name * 16, "transition_id": f"{name}-{transition}", "transition": transition}
    return {**ids, "rule": "gpu_lost", "labels": labels, "members": [], "note": note}


HANDED_ON = [
    of("b", "opened", host="h"),
    of("a", "opened", engine_id="e-1"),
    of("c", "opened", engine_id="e-1"),
    of("a", "resolved", f"same cause as {'b' * 16}", engine_id="e-1"),
    of("c", "resolved", engine_id="e-1"),
    of("b", "resolved", host="h"),
    None,
]
"""An alert leaves its engine to another, which does not name it."""


async def test_after_a_restart_an_engine_stays_out_until_the_alert_that_it_was_left_to_is_over() -> None:
    """What was done is known again, and not done again."""
    consumer = Consumer(HANDED_ON, done=4)

    asked = await followed(consumer)

    assert asked == [("/engines/e-1/undrain", "b-resolved-e-1")]
    assert consumer.commits == [5, 6, 7]


async def test_a_group_that_committed_nothing_does_all_that_the_topic_says() -> None:
    """Record by record from its beginning."""
    consumer = Consumer(HANDED_ON, done=None)

    asked = await followed(consumer)

    drains = [("/engines/e-1/drain", f"{key}-e-1") for key in ("a-opened", "c-opened", "a-resolved")]
    assert asked == [*drains, ("/engines/e-1/undrain", "b-resolved-e-1")]
    assert consumer.commits == [1, 2, 3, 4, 5, 6, 7]
