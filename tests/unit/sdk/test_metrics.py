from __future__ import annotations

import json
from typing import Any

import pytest

import fleetpulse_track as track
from fleetpulse_track import handover
from fleetpulse_track.handover import HEADER, METRIC
from fleetpulse_track.metrics import attributes_text, service
from tests.unit.producers.receiver import sent


def said(data: bytes) -> dict[str, Any]:
    head = HEADER.unpack_from(data)
    assert head[1] == METRIC
    return dict(json.loads(data[-head[3] :]))


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> sent.Recorded:
    monkeypatch.setenv("FLEETPULSE_SERVICE", "app")
    return sent.Recorded(kind=METRIC)


def test_a_level_and_an_increase_are_told_apart(client: sent.Recorded) -> None:
    """In millionths; with unit and attributes where there are any."""
    track.metric("queue_depth", 12.5, unit="requests", pool="batch", client=client)
    track.count("retries", client=client)
    track.metric("drift", -0.25, client=client)

    assert [said(data) for data in client.sent] == [
        {
            "metric": "queue_depth",
            "unit": "requests",
            "service": "app",
            "value_micro": 12_500_000,
            "attributes": "pool=batch",
        },
        {"metric": "retries", "service": "app", "increase_micro": 1_000_000},
        {"metric": "drift", "service": "app", "value_micro": -250_000},
    ]
    assert [HEADER.unpack_from(data)[9] for data in client.sent] == [0, 1, 2]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e13, "much", None], ids=str)
def test_what_is_no_value_is_left_out(client: sent.Recorded, value: Any) -> None:
    """Nothing is raised into the caller."""
    track.metric("m", value, client=client)
    track.count("m", value, client=client)
    track.count("m", -1, client=client)

    assert client.sent == []


def test_attributes_are_sorted_and_bounded() -> None:
    """Eight at most, 256 bytes at most, as a label has; what is None is none."""
    assert attributes_text({"b": 1, "a": "x", "c": None}) == "a=x,b=1"
    assert attributes_text({f"k{number}": number for number in range(9)}) == ",".join(f"k{n}={n}" for n in range(8))
    assert attributes_text({"a": "x" * 253, "b": 1}) == "a=" + "x" * 253
    assert attributes_text({"a": "x" * 255}) is None
    assert attributes_text({"a": "é" * 127, "b": 1}) == "a=" + "é" * 127
    assert attributes_text({"a": "é" * 128}) is None
    assert attributes_text({}) is None


def test_an_application_has_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ours, OpenTelemetry's, else its program's."""
    for name in ("FLEETPULSE_SERVICE", "OTEL_SERVICE_NAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("sys.argv", ["/opt/app/serve.py"])
    names = [service()]
    for name in ("OTEL_SERVICE_NAME", "FLEETPULSE_SERVICE"):
        monkeypatch.setenv(name, name)
        names.append(service())

    assert names == ["serve.py", "OTEL_SERVICE_NAME", "FLEETPULSE_SERVICE"]


def test_a_client_of_requests_names_the_agent_and_does_not_carry_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """A value on the sequence of requests would be read as one: it goes to the same agent on a sequence of its own."""
    made: list[sent.Recorded] = []

    def another(path: str | None = None, *, kind: int) -> sent.Recorded:
        made.append(sent.Recorded(kind=kind))
        made[-1].path = path
        return made[-1]

    monkeypatch.setattr(handover, "Client", another)
    monkeypatch.setattr(handover, "_others", {})
    requests = sent.Recorded()
    track.metric("depth", 1, client=requests)
    track.metric("depth", 2, client=requests)

    assert requests.sent == []
    assert [(each.path, each.kind, len(each.sent)) for each in made] == [("/nowhere", METRIC, 2)]
