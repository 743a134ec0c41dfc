"""What stands on what: learned from windows and events, bounded, forgotten."""

from __future__ import annotations

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_jobs.alerts.policy import AlertPolicy
from stream_jobs.alerts.readings import READINGS
from stream_jobs.alerts.topology import SINCE_MAX, Topology
from stream_jobs.insight.frame import Window
from stream_jobs.parts import compress
from tests.unit.stream_jobs.alerts.cases import ENGINES, at, rows_of_fleet

HOUR = 360


def learned(policy: AlertPolicy | None = None, windows: int = 1) -> Topology:
    topology = Topology(policy or AlertPolicy())
    for window in range(windows):
        topology.learn(Window(at(window), rows_of_fleet()), at(window + 1))
    return topology


def test_labels_that_follow_from_others_are_added() -> None:
    """Of a GPU its engine, host and the only model there; of a tenant nothing."""
    topology = learned()

    where = {"host": "h-1", "engine_id": "h-1/e-0", "placement_group": "h-1/e-0", "cluster": "c-1", "model": "llama"}
    where |= {"model_version": "v1"}
    assert topology.where({"gpu_uuid": "g-10"}) == {"gpu_uuid": "g-10", **where}
    assert topology.where({"engine_id": "h-1/e-0"}) == where
    assert topology.where({"host": "h-1"}) == {"host": "h-1", "cluster": "c-1"}
    assert topology.where({"tenant": "t-llama"}) == {"tenant": "t-llama"}
    assert topology.where({"gpu_uuid": "nobody's"}) == {"gpu_uuid": "nobody's"}


def test_what_is_told_stays_as_it_was_told() -> None:
    """The finding's own labels are never replaced."""
    assert learned().where({"gpu_uuid": "g-10", "host": "gateway"})["host"] == "gateway"


def test_who_stands_on_whom() -> None:
    """GPUs and engines of a host, engines of a model, models of a tenant."""
    topology = learned()

    assert topology.gpus_on("h-1") == ["g-10", "g-11", "g-12", "g-13"]
    assert topology.engines_on("h-1") == ["h-1/e-0", "h-1/e-1"]
    assert topology.engines_of("llama") == ["h-1/e-0", "h-2/e-0", "h-3/e-0"]
    assert list(topology.tenants["t-qwen"].models) == ["qwen"]
    assert (topology.gpus_on("h-9"), topology.engines_of("other")) == ([], [])


def test_requests_measured_at_a_gateway_do_not_move_an_engine() -> None:
    """Nor are they a sign of life of a host."""
    topology = Topology(AlertPolicy())
    rows = rows_of_fleet()

    topology.learn(Window(at(0), {"llm.requests": rows["llm.requests"]}), at(1))
    alone = (topology.engines["h-2/e-0"].host, dict(topology.hosts))
    topology.learn(Window(at(1), rows), at(2))
    topology.learn(Window(at(2), rows_of_fleet(("h-2",))), at(3))

    assert alone == (None, {})
    assert topology.engines["h-2/e-0"].host == "h-2"
    assert topology.is_silent("h-2", at(2))
    assert not topology.is_silent("h-1", at(2))
    assert not topology.is_silent("h-9", at(2))


def test_an_engine_that_moves_is_on_its_new_host() -> None:
    """And a GPU given to another engine is under that one."""
    topology = learned()

    topology.learn_row({"engine_id": "h-1/e-0", "host": "h-2", "model": "qwen"}, at(2))
    topology.learn_row({"gpu_uuid": "g-10", "engine_id": "h-1/e-1", "host": "h-1", "placement_group": "p"}, at(2))

    assert topology.engines_on("h-1") == ["h-1/e-1"]
    assert topology.engines_on("h-2") == ["h-1/e-0", "h-2/e-0"]
    assert topology.where({"gpu_uuid": "g-10"})["engine_id"] == "h-1/e-1"
    assert "model" not in topology.where({"engine_id": "h-1/e-0"})


def test_a_gpu_on_another_host_is_no_longer_its_old_engine_s() -> None:
    """Nor of its group, until the new host names one; a row that names no engine on the same host changes nothing."""
    topology = learned()
    topology.learn_row({"gpu_uuid": "g-11", "host": "h-1"}, at(2))

    topology.learn_row({"gpu_uuid": "g-10", "host": "h-3"}, at(2))
    moved = topology.where({"gpu_uuid": "g-10"})
    topology.learn_row({"gpu_uuid": "g-10", "host": "h-3", "engine_id": "h-3/e-0", "placement_group": "p"}, at(3))

    assert moved == {"gpu_uuid": "g-10", "host": "h-3", "cluster": "c-1"}
    assert topology.where({"gpu_uuid": "g-10"})["engine_id"] == "h-3/e-0"
    assert topology.where({"gpu_uuid": "g-11"})["engine_id"] == "h-1/e-0"


def test_an_engine_that_was_reloaded_serves_its_new_model_alone() -> None:
    """Once the old one has been unseen for a quarter of an hour; of models that are served side by side all stay."""
    topology, other = Topology(AlertPolicy()), Topology(AlertPolicy())

    def tell(model: str, version: str, minute: int) -> None:
        topology.learn_row({"engine_id": "e", "model": model, "model_version": version}, at(6 * minute))

    def serving() -> tuple[dict[str, int], int, list[str], str | None]:
        versions = {model: topology.peers_with(model, "v2") for model in "ab"}
        return (
            versions,
            topology.peers_of("a"),
            topology.engines_of("b"),
            topology.where({"engine_id": "e"}).get("model"),
        )

    tell("a", "v2", 0)
    seen = [serving()]
    for minute in range(1, 15):
        tell("b", "v2", minute)
    seen.append(serving())
    other.load(topology.dump())
    for one in (topology, other):
        one.learn(Window(at(90), rows_of_fleet(engines=(("h", "e", ("g",), "b"),))), at(90))
    seen.append(serving())

    assert seen == [
        ({"a": 1, "b": 0}, 1, [], "a"),
        ({"a": 1, "b": 1}, 1, ["e"], None),
        ({"a": 0, "b": 0}, 0, ["e"], "b"),
    ]
    assert (other.engines, other.dump()) == (topology.engines, topology.dump())
    tell("a", "v2", 16)
    for minute in range(20, 60, 10):
        tell("a", "v2", minute)
        tell("b", "v2", minute)
    assert serving() == ({"a": 1, "b": 1}, 1, ["e"], None)


def test_what_was_not_seen_for_long_is_forgotten() -> None:
    """A host that was taken away is known for a while, then no more; the others stay."""
    topology = learned(AlertPolicy(forget_ms=3_600_000))
    for window in range(1, 2 * HOUR + 2):
        if window % 30 == 0:
            topology.learn(Window(at(window), rows_of_fleet(("h-2",))), at(window + 1))

    assert sorted(topology.hosts) == ["h-1", "h-3"]
    assert topology.gpus_on("h-2") == []
    assert "g-20" not in topology.gpus
    assert "h-2/e-0" in topology.engines  # requests still name it


def test_it_is_bounded() -> None:
    """Later ones are not learned."""
    topology = learned(AlertPolicy(topology_max=2))

    assert [len(one) for one in (topology.gpus, topology.engines, topology.hosts, topology.tenants)] == [2, 2, 2, 2]


@pytest.mark.parametrize("events", [0, 1, SINCE_MAX, SINCE_MAX + 1])
def test_a_dump_holds_everything(events: int) -> None:
    """The same answers and the same bytes after it; of what events told since the last window too."""
    topology, other = learned(), Topology(AlertPolicy())
    for number in range(events):
        topology.learn_row({"gpu_uuid": f"new-{number}", "engine_id": "h-2/e-0", "host": "h-2"}, at(2))
    dumped = topology.dump()

    other.load(dumped)

    assert other.dump() == dumped
    assert other.gpus == topology.gpus
    assert other.gpus_on("h-2") == topology.gpus_on("h-2")
    assert len(other.gpus_on("h-2")) == len(learned().gpus_on("h-2")) + events
    assert [other.where({"gpu_uuid": gpu}) for _, _, gpus, _ in ENGINES for gpu in gpus] == [
        topology.where({"gpu_uuid": gpu}) for _, _, gpus, _ in ENGINES for gpu in gpus
    ]
    assert other.engines_of("llama") == topology.engines_of("llama")


def test_a_dump_in_between_does_not_show_in_a_later_one() -> None:
    """Equal states, equal bytes, whenever snapshots were taken."""
    seen, unseen = learned(), learned()
    for topology in (seen, unseen):
        topology.learn_row({"gpu_uuid": "g-10", "engine_id": "h-1/e-1", "host": "h-1"}, at(2))
        if topology is seen:
            topology.dump()
        topology.learn_row({"engine_id": "h-9/e-0", "host": "h-9", "model": "qwen"}, at(2))

    assert seen.dump() == unseen.dump()
    assert len(seen.dump()[-1]) < 300


MACHINES = st.tuples(*(st.sampled_from(names) for names in ("ab", "xyz", "pqrs", "mn", "12")))


@settings(max_examples=60)
@given(st.lists(st.lists(MACHINES, max_size=3), max_size=8))
def test_a_graph_that_was_packed_before_is_the_one_there_is(windows: list[list[tuple[str, ...]]]) -> None:
    """GPUs and engines come, move, serve other models and versions and are forgotten: packed as for the first time."""
    seen, unseen, other = (Topology(AlertPolicy(forget_ms=2 * 3_600_000)) for _ in range(3))
    for number, found in enumerate(windows):
        rows = rows_of_fleet(engines=tuple((host, engine, (gpu,), model) for host, engine, gpu, model, _ in found))
        for topology in (seen, unseen):
            topology.learn(Window(at(HOUR * number), rows), at(HOUR * number + 1))
            for _, engine, _, model, version in found:
                topology.learn_row({"engine_id": engine, "model": model, "model_version": version}, at(HOUR * number))
        seen.dump()
    dumped = seen.dump()

    other.load(dumped)

    assert dumped == unseen.dump() == other.dump()
    for kind in ("gpus", "engines", "hosts", "tenants"):
        assert getattr(other, kind) == getattr(seen, kind) == getattr(unseen, kind)


def test_a_dump_of_0_1_0_is_read() -> None:
    """It has times beside the fields, in one part."""
    gpus = {"gpus": [["g", "h", "e", "p", "c", None, 7]], "engines": [["e", "h", "p", "c", None, 7, {"m": 6}, "v"]]}
    found = {**gpus, "hosts": [["h", "c", None, 7]], "tenants": [["t", {"m": 5}, 5]], "swept_ms": 3}
    topology, again = Topology(AlertPolicy()), Topology(AlertPolicy())

    topology.load([compress(orjson.dumps(found)), orjson.dumps([])])
    again.load(topology.dump())

    for one in (topology, again):
        assert one.where({"gpu_uuid": "g"}) == {
            **{"gpu_uuid": "g", "engine_id": "e", "placement_group": "p", "host": "h", "cluster": "c"},
            **{"model": "m", "model_version": "v"},
        }
        assert (one.engines["e"].models, one.tenants["t"].models, one.swept_ms) == ({"m": 6}, {"m": 5}, 3)
        assert [one.hosts["h"].seen_ms, one.gpus["g"].seen_ms, one.tenants["t"].seen_ms] == [7, 7, 5]


NAMES = st.sampled_from([None, "a", "b", "c"])


@settings(max_examples=100)
@given(st.lists(st.tuples(NAMES, NAMES, NAMES, NAMES, NAMES), max_size=30))
def test_what_moves_is_where_it_was_told_last(told: list[tuple[str | None, ...]]) -> None:
    """Who is on a host and who serves a model is what entries say, one by one: GPUs and engines come, move and go."""
    topology, entries = Topology(AlertPolicy()), Topology(AlertPolicy())
    for number, values in enumerate(told):
        names = ("gpu_uuid", "host", "engine_id", "model", "model_version")
        topology.learn_row(dict(zip(names, values, strict=True)), at(40 * number))
    entries.gpus, entries.engines, entries.hosts = topology.gpus, topology.engines, topology.hosts
    entries.forget(0)

    for name in "abc":
        assert topology.gpus_on(name) == entries.gpus_on(name)
        assert topology.engines_on(name) == entries.engines_on(name)
        assert topology.engines_of(name) == entries.engines_of(name)
        assert [topology.peers_with(name, version) for version in "abc"] == [
            entries.peers_with(name, version) for version in "abc"
        ]


def test_every_reading_names_columns_there_are() -> None:
    """Of the partials of its topic, as labels."""
    rows = rows_of_fleet()

    assert all(name in rows[reading.topic].columns for reading in READINGS for name in reading.names)


def test_engines_are_counted_by_version_as_it_changes() -> None:
    """Asked before and after: another version, another model, an engine that is forgotten."""
    topology = Topology(AlertPolicy())

    def learn(name: str, model: str, version: str | None, at_ms: int = 0) -> None:
        topology.learn_row({"engine_id": name, "host": "h", "model": model, "model_version": version}, at_ms)

    def counts() -> tuple[int, ...]:
        return tuple(topology.peers_with(*one) for one in (("m", "v1"), ("m", "v2"), ("n", "v2")))

    seen = [counts()]
    for name in "ab":
        learn(name, "m", "v1")
    seen.append(counts())
    learn("b", "m", "v2", 5)
    seen.append(counts())
    learn("b", "n", None, 5)
    seen.append(counts())
    topology.forget(1)
    seen.append(counts())

    assert seen == [(0, 0, 0), (2, 0, 0), (1, 1, 0), (1, 1, 1), (0, 1, 1)]
    assert (topology.peers_of("m"), topology.peers_on("h", gpus=False), topology.peers_on("h", gpus=True)) == (1, 1, 0)
