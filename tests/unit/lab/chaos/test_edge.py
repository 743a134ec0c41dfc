"""What is held against a fault; making one is tested in tests/integration."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lab.chaos import edge
from lab.chaos.edge import FAULTS, MEMORY_MIB_MAX, EdgeReport, Fault, Outcome, _witness, _wrong, run_edge
from lab.chaos.edge_load import Fate, Loaded, Phase
from schemas.errors import FleetpulseError

FAULT = Fault("disk full", "full")
NOTES = {"proxy": "new events are shed", "agent": "new events are shed"}
NONE = dict.fromkeys(Fate, 0)
PHASES = {phase: NONE | {Fate.WHOLE: 3} for phase in Phase}
SEEN = "9 calls of the proxy failed or waited"
GOOD = Outcome("disk full", 9, 0, 0, 0, 0, 9, 7, 2, 7, NOTES, (), (), {"proxy": 80, "agent": 110}, (), PHASES, SEEN)


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        pytest.param({}, [], id="all accounted for"),
        pytest.param({"cut": 1}, ["1 streams were cut, 0 changed"], id="a stream is cut"),
        pytest.param({"changed": 2}, ["0 streams were cut, 2 changed"], id="a byte is another"),
        pytest.param({"booked": 6}, ["1 requests are neither in the books nor declared"], id="a request is lost"),
        pytest.param({"declared": 3}, ["-1 requests are neither in the books nor declared"], id="one counts twice"),
        pytest.param({"requests": 0, "booked": 0, "declared": 0}, ["no stream was served"], id="nothing was served"),
        pytest.param({"refused": 1}, ["1 requests got a 503"], id="a client is refused"),
        pytest.param({"reset": 2}, ["2 clients got no connection"], id="a client gets no connection"),
        pytest.param(
            {"phases": PHASES | {Phase.DURING: NONE}},
            ["no stream that began during the fault was served"],
            id="nothing is served while it lasts",
        ),
        pytest.param(
            {"phases": PHASES | {Phase.AFTER: NONE}},
            ["no stream that began after the fault was served"],
            id="nothing is served when it is over",
        ),
        pytest.param({"witness": None}, ["nothing shows that the fault took effect"], id="there was no fault"),
        pytest.param({"ended": ("agent",)}, ["agent ended"], id="a process ends"),
        pytest.param(
            {"not_back": ("proxy",)}, ["readiness of the proxy does not become good again"], id="it does not recover"
        ),
        pytest.param({"notes": {"proxy": "x"}}, ["readiness of the agent said nothing"], id="readiness is silent"),
        pytest.param(
            {"memory_mib": {"proxy": MEMORY_MIB_MAX + 1}}, [f"the proxy took {MEMORY_MIB_MAX + 1} MiB"], id="memory"
        ),
    ],
)
def test_every_wrong_is_named(changes: dict[str, Any], wrong: list[str]) -> None:
    """One sentence each."""
    assert list(_wrong(replace(GOOD, **changes), FAULT)) == wrong


def test_a_fault_that_readiness_need_not_name() -> None:
    """A slow disk is no failure while what waits fits into memory."""
    assert list(_wrong(replace(GOOD, notes={}), replace(FAULT, noted=False))) == []


def test_clients_beyond_the_descriptors_are_refused_as_documented() -> None:
    """All others are served."""
    assert list(_wrong(replace(GOOD, refused=5), replace(FAULT, descriptors=256, streams_min=128))) == []


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_every_fault_has_a_witness(fault: Fault) -> None:
    """And where it took no effect there is none."""
    refused = Loaded(PHASES | {Phase.DURING: NONE | {Fate.REFUSED: 4}}, {})
    ahead_ms = fault.clock_ms or 0

    assert _witness(fault, 3, [5_000, 6_000 + ahead_ms], (4_000, 7_000), refused, logged=True) is not None
    assert _witness(fault, 0, [5_000, 6_000], (4_000, 7_000), Loaded(PHASES, {}), logged=False) is None


def test_a_limit_that_refuses_nobody_was_not_met() -> None:
    """Whatever the log says."""
    (limit,) = (fault for fault in FAULTS if fault.descriptors)

    assert _witness(limit, 0, [], (0, 1), Loaded(PHASES, {}), logged=True) is None


def test_what_kafka_did_not_get_when_it_was_back() -> None:
    """Where it is there at all."""
    for fault in (replace(FAULT, kafka=True), replace(FAULT, tls=True)):
        assert list(_wrong(GOOD, fault)) == ["7 requests did not reach Kafka when it was back"]


def test_a_report_is_exact_when_nothing_is_wrong_with_any() -> None:
    """And with none at all it is not."""
    bad = replace(GOOD, wrong=("no stream was served",))

    assert EdgeReport((GOOD,)).exact
    assert not EdgeReport((GOOD, bad)).exact
    assert not EdgeReport(()).exact
    text = EdgeReport((GOOD, bad)).text()
    assert "disk full: no stream was served" in text
    assert EdgeReport((GOOD,)).as_dict()["faults"][0]["missing"] == 0


def test_an_unknown_fault_names_those_there_are(tmp_path: Path) -> None:
    """Before anything is started."""
    with pytest.raises(FleetpulseError, match=FAULTS[-1].name):
        run_edge(streams=1, fault_s=1.0, only="flood", data_dir=tmp_path, say=print)


@pytest.mark.parametrize(
    ("only", "needs"),
    [
        (None, "disk full, disk read-only, disk failing, disk slow, clock forward, clock back"),
        ("disk full", "disk full"),
    ],
    ids=["all", "one"],
)
def test_without_a_c_compiler_no_fault_that_needs_one_is_left_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, only: str | None, needs: str
) -> None:
    """It ends before the first, and says what to install; one that needs none is made."""
    said: list[str] = []
    monkeypatch.setattr(edge, "compiler", lambda: None)
    monkeypatch.setattr(edge, "_broker", lambda *_of: None)
    monkeypatch.setattr(edge, "_run", lambda *_of: GOOD)

    with pytest.raises(FleetpulseError, match=rf"C compiler \(cc\) is needed for {needs}: install one"):
        run_edge(streams=1, fault_s=1.0, only=only, data_dir=tmp_path, say=said.append)
    assert said == []
    assert run_edge(streams=1, fault_s=1.0, only="Kafka away", data_dir=tmp_path, say=said.append).exact
    assert said == ["Kafka away"]
