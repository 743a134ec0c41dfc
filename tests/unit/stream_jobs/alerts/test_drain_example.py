"""examples/drain_engine.py over the alerts that the job makes: which engines stand outside the router."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import orjson

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
