from __future__ import annotations

from dataclasses import replace

from producers.engines.placement import KEPT_S, HostPlacement, Placement
from producers.engines.processes import ProcessTable
from producers.engines.target import EngineTarget
from runtime.edge_config import JobConfig
from tests.virtual_clock import VirtualClock

ONE = EngineTarget("one", "http://127.0.0.1:8000")
TWO = EngineTarget("two", "http://127.0.0.1:8001")
TABLE = ProcessTable(
    listeners={8000: {10}, 8001: {20}},
    parents={11: 10, 21: 20},
    gpus={"G0": {11: "worker"}, "G1": {11: "worker", 21: "worker"}, "G2": {}},
)
IDLE = {"engine_id": None, "placement_group": "h", "workload": "idle"}


def test_configured_placement_wins_field_by_field() -> None:
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
    """The same object has the current placement."""
    clock = VirtualClock()
    registry = HostPlacement("h", [JobConfig(workload="training", pattern="train")], clock=clock)
    placement = registry.placement

    assert (dict(placement), registry.of("one")) == ({}, ((), "h"))

    registry.saw_engine(ONE)
    registry.saw_processes(TABLE)

    assert registry.of("one") == (("G0", "G1"), "one")
    assert dict(placement) == {
        "G0": {"engine_id": "one", "placement_group": "one", "workload": "inference"},
        "G1": {"engine_id": "one", "placement_group": "one", "workload": "inference"},
        "G2": IDLE,
    }

    registry.saw_engine(TWO)

    assert (registry.of("one"), registry.of("two")) == ((("G0", "G1"), "one+two"), (("G1",), "one+two"))
    assert placement["G1"] == {"engine_id": None, "placement_group": "one+two", "workload": "inference"}
    assert [registry.engine_of(pid) for pid in (11, 21, 99)] == ["one", "two", None]

    registry.lost_engine("one")
    registry.lost_engine("never there")
    clock.advance(KEPT_S * 1_000)
    registry.saw_processes(TABLE)

    assert (registry.of("one"), registry.of("two")) == (((), "h"), (("G1",), "two"))
    assert placement["G0"] == {"engine_id": None, "placement_group": "h", "workload": None}


def test_gpus_of_an_engine_that_is_lost_keep_its_group_for_two_minutes() -> None:
    """They are nobody's, and so is their time. One that answers again within a minute leaves them in one group, and
    also engines that share with it."""
    clock = VirtualClock()
    registry = HostPlacement("h", clock=clock)
    registry.saw_processes(TABLE)
    registry.saw_engine(ONE)
    registry.saw_engine(TWO)
    seen = []
    for after_s, turn in (
        (0, lambda: registry.lost_engine("one")),
        (20, lambda: registry.saw_engine(ONE)),
        (10, lambda: registry.lost_engine("one")),
        (KEPT_S - 1, lambda: registry.saw_processes(TABLE)),
        (1, lambda: registry.saw_processes(TABLE)),
    ):
        clock.advance(after_s * 1_000)
        turn()
        places = [registry.placement[uuid] for uuid in ("G0", "G1", "G2")]
        seen.append([(place["engine_id"], place["placement_group"]) for place in places])

    lost, idle = [(None, "one+two"), ("two", "one+two"), (None, "h")], (None, "h")
    assert seen == [lost, [("one", "one+two"), (None, "one+two"), idle], lost, lost, [idle, ("two", "two"), idle]]


def test_an_engine_on_gpus_of_a_lost_one_has_its_own_group() -> None:
    """At once, for all that the other had: it is another engine, and the minute has one change."""
    registry = HostPlacement("h")
    registry.saw_processes(TABLE)
    registry.saw_engine(ONE)
    registry.lost_engine("one")

    assert {uuid: place["placement_group"] for uuid, place in registry.placement.items()} == {
        "G0": "one", "G1": "one", "G2": "h",
    }  # fmt: skip

    registry.saw_engine(TWO)

    assert registry.of("two") == (("G1",), "two")
    assert {uuid: place["placement_group"] for uuid, place in registry.placement.items()} == {
        "G0": "h", "G1": "two", "G2": "h",
    }  # fmt: skip


def test_a_divided_gpu_keeps_the_group_of_a_lost_engine() -> None:
    """With all its devices, as it has one bill."""
    registry = HostPlacement("h")
    gpus = {"M0": {10: "vllm"}, "M1": {20: "vllm"}, "M2": dict[int, str]()}
    registry.saw_processes(ProcessTable({8000: {10}, 8001: {20}}, gpus=gpus, gpu_of=dict.fromkeys(gpus, "G0")))
    registry.saw_engine(ONE)
    registry.saw_engine(TWO)
    registry.lost_engine("one")

    assert {uuid: (place["engine_id"], place["placement_group"]) for uuid, place in registry.placement.items()} == {
        "G0": (None, "one+two"),
        "M0": (None, "one+two"),
        "M1": ("two", "one+two"),
        "M2": (None, "one+two"),
    }


def test_a_target_that_changes_is_matched_anew() -> None:
    """Its GPUs may be configured now."""
    registry = HostPlacement("h")
    registry.saw_processes(TABLE)
    registry.saw_engine(ONE)
    registry.saw_engine(replace(ONE, gpu_uuids=("G2",), placement_group="span"))

    assert registry.of("one") == (("G2",), "span")
    assert registry.placement["G2"] == {"engine_id": "one", "placement_group": "span", "workload": "inference"}


def test_a_divided_gpu_and_all_its_devices_are_of_one_group() -> None:
    """One bill: the GPU's own rows, devices of two engines, one that nobody holds and one that reports no processes."""
    registry = HostPlacement("h")
    registry.saw_processes(
        ProcessTable(
            listeners={8000: {10}, 8001: {20}},
            gpus={"M0": {10: "vllm"}, "M1": {20: "vllm"}, "M2": {}, "M4": {}},
            gpu_of={"M0": "G0", "M1": "G0", "M2": "G0", "M3": "G0", "M4": "G1"},
        )
    )
    registry.saw_engine(ONE)
    registry.saw_engine(TWO)

    assert (registry.of("one"), registry.of("two")) == ((("M0",), "one+two"), (("M1",), "one+two"))
    assert dict(registry.placement) == {
        "G0": {"engine_id": None, "placement_group": "one+two", "workload": None},
        "G1": {"engine_id": None, "placement_group": "h", "workload": None},
        "M0": {"engine_id": "one", "placement_group": "one+two", "workload": "inference"},
        "M1": {"engine_id": "two", "placement_group": "one+two", "workload": "inference"},
        "M2": {"engine_id": None, "placement_group": "one+two", "workload": "idle"},
        "M4": IDLE,
    }


OWN = replace(ONE, gpu_uuids=("G0", "G1"))


def working(*pids: int, command: str = "vllm", listeners: dict[int, set[int]] | None = None) -> ProcessTable:
    """Processes on both GPUs of ``OWN``."""
    return ProcessTable(listeners or {}, gpus=dict.fromkeys(("G0", "G1"), dict.fromkeys(pids, command)))


def workloads(registry: HostPlacement) -> list[tuple[str | None, str | None]]:
    """Engine and workload of its GPUs."""
    return [(place["engine_id"], place["workload"]) for place in dict(registry.placement).values()]


STARTS, SERVES = [("one", "startup")] * 2, [("one", "inference")] * 2
NOBODY = [(None, None)] * 2


def test_an_engine_starts_from_its_first_work_on_its_gpus_to_its_first_answer() -> None:
    """Its scrapes fail, and a process works there: the GPUs are its own, and not idle."""
    registry = HostPlacement("h")
    seen = []
    for turn in (
        lambda: registry.saw_processes(working(10)),  # not scraped yet
        lambda: registry.silent_engine(OWN),
        lambda: registry.saw_engine(OWN),
        lambda: registry.saw_processes(working(10)),
    ):
        turn()
        seen.append(workloads(registry))

    assert seen == [NOBODY, STARTS, SERVES, SERVES]
    assert registry.of("one") == (("G0", "G1"), "one")


def test_an_engine_that_hangs_or_ended_does_not_start_and_one_with_another_process_does() -> None:
    """As the tables of processes show it, each after a scrape of the engine failed."""
    registry = HostPlacement("h")
    registry.saw_engine(OWN)
    registry.saw_processes(working(10, 11))
    registry.silent_engine(OWN)
    seen = []
    for pids in ((10, 11), (11,), (11, 12), (), (12,)):
        registry.saw_processes(working(*pids))
        seen.append(workloads(registry)[0][1])

    assert seen == ["inference", "inference", "inference", "inference", "startup"]


def test_what_was_not_seen_serving_in_a_table_is_no_start() -> None:
    """The engine answered and fell silent between two looks at processes: whose they are is not known."""
    registry = HostPlacement("h")
    registry.saw_engine(OWN)
    registry.silent_engine(OWN)
    registry.saw_processes(working(10))
    unknown = workloads(registry)
    registry.saw_engine(OWN)
    registry.saw_processes(working(10))
    registry.silent_engine(OWN)
    registry.saw_processes(working(12))

    assert (unknown, workloads(registry)) == (SERVES, STARTS)


def test_work_of_others_on_an_engines_gpus_is_not_its_start() -> None:
    """Of another engine that answers, or of a configured job; nor does an engine start that has no configured GPUs."""
    beside = HostPlacement("h", [JobConfig(workload="training", pattern="train")])
    beside.saw_engine(TWO)
    beside.saw_processes(working(20, listeners={8001: {20}}))
    beside.silent_engine(OWN)
    trains = HostPlacement("h", [JobConfig(workload="training", pattern="train")])
    trains.silent_engine(OWN)
    trains.saw_processes(working(30, command="train.py"))
    placeless = HostPlacement("h")
    placeless.silent_engine(ONE)
    placeless.saw_processes(working(10))

    assert workloads(beside) == [("two", "inference")] * 2
    assert workloads(trains) == [(None, "training")] * 2
    assert workloads(placeless) == NOBODY


def test_processes_of_engines_and_jobs_are_known_with_all_they_started() -> None:
    """On a GPU or not: API server, tokenizer and workers of an engine, loaders of a job. Others are nobody's."""
    registry = HostPlacement("h", [JobConfig(workload="training", pattern="train")])
    registry.saw_processes(
        ProcessTable(
            listeners={8000: {10}, 9000: {50}},
            parents={10: 1, 11: 10, 12: 11, 20: 1, 21: 20, 30: 1, 50: 1},
            gpus={"G0": {12: "worker"}, "G1": {20: "python train.py", 30: "other"}},
        )
    )
    assert registry.owners() == {
        pid: {"engine_id": None, "placement_group": "h", "workload": "training"} for pid in (20, 21)
    }

    registry.saw_engine(EngineTarget("e", "http://127.0.0.1:8000"))

    engine = {"engine_id": "e", "placement_group": "e", "workload": "inference"}
    job = {"engine_id": None, "placement_group": "h", "workload": "training"}
    assert registry.owners() == {**dict.fromkeys((10, 11, 12), engine), **dict.fromkeys((20, 21), job)}
    registry.lost_engine("e")
    assert set(registry.owners()) == {20, 21}


def test_a_process_of_two_engines_is_nobody_s() -> None:
    """And a table of parents that goes round has an end."""
    registry = HostPlacement("h")
    registry.saw_processes(ProcessTable(listeners={1: {10}, 2: {11}}, parents={10: 12, 11: 10, 12: 11}))
    registry.saw_engine(EngineTarget("a", "http://127.0.0.1:1"))
    registry.saw_engine(EngineTarget("b", "http://127.0.0.1:2"))

    assert registry.owners() == {}


def test_a_table_that_comes_late_says_nothing() -> None:
    """A thread that hung brings what was there before the newer one."""
    registry = HostPlacement("h")
    registry.saw_engine(ONE)
    registry.saw_processes(TABLE, 2)
    registry.saw_processes(ProcessTable(), 1)

    assert registry.of("one")[0] == ("G0", "G1")
