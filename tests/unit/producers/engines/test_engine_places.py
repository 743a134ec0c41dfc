from __future__ import annotations

from dataclasses import replace

from producers.engines.places import Placement, Places
from producers.engines.processes import ProcessTable
from producers.engines.target import EngineTarget, Job

ONE = EngineTarget("one", "http://127.0.0.1:8000")
TWO = EngineTarget("two", "http://127.0.0.1:8001")
TABLE = ProcessTable(
    listeners={8000: {10}, 8001: {20}},
    parents={11: 10, 21: 20},
    gpus={"G0": {11: "worker"}, "G1": {11: "worker", 21: "worker"}, "G2": {}},
)
IDLE = {"engine_id": None, "placement_group": "h", "workload": "idle"}


def test_configured_places_win_field_by_field() -> None:
    """What they leave open is taken from what was found."""
    placement = Placement({"G0": {"engine_id": "mine", "workload": None}, "G9": {"workload": "training"}})
    before = dict(placement)
    placement.replace({"G0": {"engine_id": "found", "workload": "inference"}, "G1": IDLE})

    assert before == {"G0": {"engine_id": "mine"}, "G9": {"workload": "training"}}
    assert dict(placement) == {
        "G0": {"engine_id": "mine", "workload": "inference"},
        "G1": IDLE,
        "G9": {"workload": "training"},
    }


def test_engines_come_and_go() -> None:
    """The same object tells the places of now."""
    places = Places("h", [Job("training", "train")])
    placement = places.placement

    assert (dict(placement), places.of("one")) == ({}, ((), "h"))

    places.saw_engine(ONE)
    places.saw_processes(TABLE)

    assert places.of("one") == (("G0", "G1"), "one")
    assert dict(placement) == {
        "G0": {"engine_id": "one", "placement_group": "one", "workload": "inference"},
        "G1": {"engine_id": "one", "placement_group": "one", "workload": "inference"},
        "G2": IDLE,
    }

    places.saw_engine(TWO)

    assert (places.of("one"), places.of("two")) == ((("G0", "G1"), "one+two"), (("G1",), "one+two"))
    assert placement["G1"] == {"engine_id": None, "placement_group": "one+two", "workload": "inference"}
    assert [places.engine_of(pid) for pid in (11, 21, 99)] == ["one", "two", None]

    places.lost_engine("one")
    places.lost_engine("never there")

    assert (places.of("one"), places.of("two")) == (((), "h"), (("G1",), "two"))
    assert placement["G0"] == {"engine_id": None, "placement_group": "h", "workload": None}


def test_a_target_that_changes_is_matched_anew() -> None:
    """Its GPUs may be configured now."""
    places = Places("h")
    places.saw_processes(TABLE)
    places.saw_engine(ONE)
    places.saw_engine(replace(ONE, gpu_uuids=("G2",), placement_group="span"))

    assert places.of("one") == (("G2",), "span")
    assert places.placement["G2"] == {"engine_id": "one", "placement_group": "span", "workload": "inference"}


def test_a_divided_gpu_and_all_its_devices_are_of_one_group() -> None:
    """One bill: the GPU's own rows, devices of two engines, one that nobody holds and one that tells no processes."""
    places = Places("h")
    places.saw_processes(
        ProcessTable(
            listeners={8000: {10}, 8001: {20}},
            gpus={"M0": {10: "vllm"}, "M1": {20: "vllm"}, "M2": {}, "M4": {}},
            gpu_of={"M0": "G0", "M1": "G0", "M2": "G0", "M3": "G0", "M4": "G1"},
        )
    )
    places.saw_engine(ONE)
    places.saw_engine(TWO)

    assert (places.of("one"), places.of("two")) == ((("M0",), "one+two"), (("M1",), "one+two"))
    assert dict(places.placement) == {
        "G0": {"engine_id": None, "placement_group": "one+two", "workload": None},
        "G1": {"engine_id": None, "placement_group": "h", "workload": None},
        "M0": {"engine_id": "one", "placement_group": "one+two", "workload": "inference"},
        "M1": {"engine_id": "two", "placement_group": "one+two", "workload": "inference"},
        "M2": {"engine_id": None, "placement_group": "one+two", "workload": "idle"},
        "M4": IDLE,
    }
