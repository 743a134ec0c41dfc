from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from producers.engines.facts import NO_FACTS, SIZES, Facts
from producers.engines.registry import (
    GROUP_CHARS_MAX,
    Registration,
    announcement,
    engines_by_pid,
    event_row,
    gpus_of,
    placement_groups,
    placement_of,
    registration_of,
    remembered,
)
from producers.engines.target import EngineTarget
from runtime.edge_config import JobConfig
from schemas.codec.build import block_from_rows
from schemas.events.event_types import ENGINE_EVENTS

TARGET = EngineTarget("e", "http://127.0.0.1:8000")
GPUS = {"G0": {110: "worker 0"}, "G1": {111: "worker 1"}, "G2": {900: "train"}, "G3": {}}
PARENTS = {100: 1, 105: 100, 110: 105, 111: 105, 900: 1}


# Which GPUs an engine is on


def test_configured_gpus_come_first() -> None:
    """Sorted and each once, whatever computes where."""
    target = replace(TARGET, gpu_uuids=("G9", "G3", "G9"))

    assert gpus_of(target, {8000: [100]}, PARENTS, GPUS) == ("G3", "G9")


def test_an_engine_is_on_the_gpus_of_its_descendants() -> None:
    """The one that listens starts a process per GPU."""
    assert gpus_of(TARGET, {8000: [100]}, PARENTS, GPUS) == ("G0", "G1")


def test_processes_on_gpus_are_of_the_engine_that_they_descend_from() -> None:
    """Nobody's, and those that two engines would claim, are left out."""
    targets = {"e": TARGET, "f": EngineTarget("f", "http://127.0.0.1:8001")}

    assert engines_by_pid(targets, {8000: [100], 8001: [900]}, PARENTS, GPUS) == {110: "e", 111: "e", 900: "f"}
    assert engines_by_pid(targets, {8000: [100], 8001: [110]}, PARENTS, GPUS) == {111: "e"}
    assert engines_by_pid({}, {}, PARENTS, GPUS) == {}


def test_the_port_of_the_api_is_looked_for() -> None:
    """Triton's metrics have another port; both are the server's."""
    target = EngineTarget("e", "http://localhost:8002/metrics", facts_url="http://localhost:8000")

    assert gpus_of(target, {8000: [100]}, PARENTS, GPUS) == ("G0", "G1")
    assert gpus_of(target, {8002: [100]}, PARENTS, GPUS) == ()


def test_a_configured_pid_is_enough() -> None:
    """Behind a port that another process forwards."""
    assert gpus_of(replace(TARGET, pid=111), {8000: [900]}, PARENTS, GPUS) == ("G1",)


@pytest.mark.parametrize("url", ["http://10.0.0.7:8000", "http://engines.example:8000"])
def test_a_port_of_another_address_tells_nothing_of_this_host(url: str) -> None:
    """The same number may be another server's here."""
    assert gpus_of(EngineTarget("e", url), {8000: [100]}, PARENTS, GPUS) == ()


@pytest.mark.parametrize(
    ("listeners", "parents"),
    [({}, PARENTS), ({8000: [100]}, {}), ({8000: [100]}, {110: 105, 105: 110}), ({8000: [7]}, PARENTS)],
    ids=["hidden sockets", "hidden parents", "parents in a circle", "somebody else's"],
)
def test_what_cannot_be_matched_is_not_known(listeners: dict[int, list[int]], parents: dict[int, int]) -> None:
    """Never guessed."""
    assert gpus_of(TARGET, listeners, parents, GPUS) == ()


# Placement groups


@pytest.mark.parametrize(
    ("gpus", "groups"),
    [
        ({}, {}),
        ({"a": ()}, {"a": "host"}),
        ({"a": ("G0",)}, {"a": "a"}),
        ({"a": ("G0",), "b": ("G1",), "c": ()}, {"a": "a", "b": "b", "c": "host"}),
        ({"b": ("G0", "G1"), "a": ("G1",)}, {"a": "a+b", "b": "a+b"}),
        (
            {"c": ("G2", "G3"), "a": ("G0", "G1"), "b": ("G1", "G2"), "d": ("G9",)},
            {"a": "a+b+c", "b": "a+b+c", "c": "a+b+c", "d": "d"},
        ),
    ],
    ids=["none", "unknown GPUs", "alone", "apart", "shared", "shared by steps"],
)
def test_engines_that_share_a_gpu_are_one_group(gpus: dict[str, tuple[str, ...]], groups: dict[str, str]) -> None:
    """Named by all of them; the host's where no GPU is known."""
    assert placement_groups(gpus, "host") == groups


def test_a_configured_group_counts_for_all_that_share_with_it() -> None:
    """An engine over several hosts has a name that no host can find; the first in order where there are two."""
    gpus = {"a": ("G0",), "b": ("G0",), "c": (), "d": ("G1",)}

    assert placement_groups(gpus, "h", {"b": "z", "c": "span"}) == {"a": "z", "b": "z", "c": "span", "d": "d"}
    assert placement_groups(gpus, "h", {"b": "z", "a": "y"})["b"] == "y"


def test_a_long_name_is_cut_and_stays_unique() -> None:
    """A key has its length."""
    gpus = {f"engine-{at:03}": ("G0",) for at in range(100)}
    name = placement_groups(gpus, "h")["engine-000"]
    other = placement_groups({**gpus, "engine-100": ("G0",)}, "h")["engine-000"]

    assert (len(name) <= GROUP_CHARS_MAX, len(other) <= GROUP_CHARS_MAX) == (True, True)
    assert name.startswith("engine-000+")
    assert name != other


USES = st.dictionaries(
    st.sampled_from([f"e{at}" for at in range(8)]),
    st.lists(st.sampled_from([f"G{at}" for at in range(6)]), max_size=3, unique=True).map(tuple),
)


@given(USES, st.randoms(use_true_random=False))
def test_groups_are_the_connected_parts_in_any_order(uses: dict[str, tuple[str, ...]], random: Random) -> None:
    """Against sets that are merged GPU by GPU."""
    parts = [{engine} for engine, gpus in uses.items() if gpus]
    for gpu in {gpu for gpus in uses.values() for gpu in gpus}:
        holding = [part for part in parts if any(gpu in uses[engine] for engine in part)]
        parts = [part for part in parts if part not in holding] + [set().union(*holding)]
    expected = {engine: "+".join(sorted(part)) for part in parts for engine in part}
    shuffled = list(uses.items())
    random.shuffle(shuffled)

    assert placement_groups(dict(shuffled), "h") == {engine: expected.get(engine, "h") for engine in uses}


# Placement of each GPU

TRAINING = JobConfig(workload="training", pattern=r"\btorchrun\b|train")
TUNING = JobConfig(workload="fine_tuning", pattern="axolotl")


def test_every_gpu_that_is_known_of_has_a_place() -> None:
    """Engines' own, shared, a job's, one with unknown work, and an idle one."""
    registrations = [
        Registration("a", "a+b", gpu_uuids=("G0", "G1")),
        Registration("b", "a+b", gpu_uuids=("G1",)),
        Registration("c", "host", gpu_uuids=()),
    ]
    gpus = {"G0": {1: "vllm"}, "G2": {5: "torchrun train.py"}, "G3": {6: "what is this"}, "G4": {}}

    assert placement_of(registrations, [TRAINING, TUNING], gpus, "host") == {
        "G0": {"engine_id": "a", "placement_group": "a+b", "workload": "inference"},
        "G1": {"engine_id": None, "placement_group": "a+b", "workload": "inference"},
        "G2": {"engine_id": None, "placement_group": "host", "workload": "training"},
        "G3": {"engine_id": None, "placement_group": "host", "workload": None},
        "G4": {"engine_id": None, "placement_group": "host", "workload": "idle"},
    }


@pytest.mark.parametrize(
    ("processes", "workload"),
    [
        ({5: "torchrun x", 6: "python train.py"}, "training"),
        ({5: "torchrun x", 6: "axolotl"}, None),
        ({5: "torchrun x", 6: "shell"}, "training"),
    ],
    ids=["two of one kind", "two kinds", "one that is known"],
)
def test_a_gpu_has_the_workload_that_all_known_work_on_it_agrees_on(
    processes: dict[int, str], workload: str | None
) -> None:
    """None where it is mixed."""
    assert placement_of([], [TRAINING, TUNING], {"G": processes}, "h")["G"]["workload"] == workload


def test_serving_and_training_on_one_gpu_is_no_single_workload() -> None:
    """Its values are of both."""
    place = placement_of([Registration("a", "a", gpu_uuids=("G",))], [TRAINING], {"G": {1: "train"}}, "h")

    assert place == {"G": {"engine_id": "a", "placement_group": "a", "workload": None}}


# Registration

KNOWN = Registration(
    engine_id="e",
    placement_group="e",
    engine_kind="vllm",
    model="llama",
    model_version="r1",
    precision="fp8",
    engine_version="0.32.0",
    context_tokens_max=8_192,
    tensor_parallel=2,
    gpu_uuids=("G0", "G1"),
)


def test_configuration_comes_before_what_the_engine_reports() -> None:
    """Fact by fact."""
    target = replace(TARGET, model="ours", precision="fp8", tensor_parallel=2)
    facts = Facts(model="theirs", precision="bf16", model_version="r1", engine_version="1", context_tokens_max=9)

    assert registration_of(target, "vllm", facts, ("G0",), "group") == Registration(
        "e", "group", "vllm", "ours", "r1", "fp8", "1", 9, 2, ("G0",)
    )
    assert registration_of(replace(TARGET, kind="tgi"), None, NO_FACTS, (), "h") == Registration("e", "h", "tgi")


def test_a_first_sight_registers() -> None:
    """With what is known."""
    assert announcement(None, KNOWN) == ("registered", "vllm 0.32.0 serves llama")
    assert announcement(None, Registration("e", "h")) == ("registered", "an engine serves a model it does not name")


def test_nothing_new_is_not_announced() -> None:
    """Every second."""
    assert announcement(KNOWN, KNOWN) is None


@pytest.mark.parametrize(
    ("now", "message"),
    [
        (replace(KNOWN, model="qwen"), "model llama -> qwen"),
        (replace(KNOWN, model_version="r2"), "model_version r1 -> r2"),
        (replace(KNOWN, precision="bf16"), "precision fp8 -> bf16"),
        (replace(KNOWN, engine_version="0.33.0"), "engine_version 0.32.0 -> 0.33.0"),
        (replace(KNOWN, context_tokens_max=4_096), "context_tokens_max 8192 -> 4096"),
        (replace(KNOWN, tensor_parallel=1, gpu_uuids=("G0",)), "tensor_parallel 2 -> 1; gpu_uuids G0,G1 -> G0"),
        (replace(KNOWN, model="qwen", precision="bf16"), "model llama -> qwen; precision fp8 -> bf16"),
    ],
)
def test_a_deployment_is_announced_with_what_changed(now: Registration, message: str) -> None:
    """From what to what."""
    assert announcement(KNOWN, now) == ("changed", message)


@pytest.mark.parametrize(
    ("before", "now", "message"),
    [
        (KNOWN, replace(KNOWN, placement_group="e+f"), "placement_group e -> e+f"),
        (KNOWN, replace(KNOWN, gpu_uuids=("G2",)), "gpu_uuids G0,G1 -> G2"),
        (replace(KNOWN, gpu_uuids=(), precision=None), KNOWN, "precision is fp8; gpu_uuids is G0,G1"),
    ],
    ids=["another group", "other GPUs", "learned"],
)
def test_a_move_and_what_is_learned_later_is_no_deployment(
    before: Registration, now: Registration, message: str
) -> None:
    """The engine is registered again."""
    assert announcement(before, now) == ("registered", message)


def test_what_is_not_known_now_is_remembered() -> None:
    """An engine that does not answer has not changed."""
    silent = Registration("e", "e", engine_kind="vllm")

    assert remembered(None, silent) == silent
    assert remembered(KNOWN, silent) == KNOWN
    assert announcement(KNOWN, remembered(KNOWN, silent)) is None


def test_nothing_of_another_model_is_remembered() -> None:
    """Its precision is its own."""
    now = Registration("e", "e", engine_kind="vllm", model="qwen")

    assert remembered(KNOWN, now) == now
    assert announcement(KNOWN, now) == ("changed", "model llama -> qwen")


def test_a_row_fits_the_event() -> None:
    """GPUs are one text; none is null."""
    row = event_row(KNOWN, "registered", "text")

    assert row == {
        "engine_id": "e",
        "placement_group": "e",
        "engine_kind": "vllm",
        "model": "llama",
        "model_version": "r1",
        "precision": "fp8",
        "engine_version": "0.32.0",
        "context_tokens_max": 8_192,
        "tensor_parallel": 2,
        "gpu_uuids": "G0,G1",
        "load_ms": None,
        **dict.fromkeys(SIZES),
        "kind": "registered",
        "message": "text",
    }
    assert event_row(Registration("e", "h"), "lost", "text")["gpu_uuids"] is None
    whole = row | {"at_ms": 1, "host": "h", "origin": "measured"}
    assert set(row) <= {field.name for field in ENGINE_EVENTS.fields}
    assert block_from_rows(ENGINE_EVENTS.fields, [whole]).rows == 1
