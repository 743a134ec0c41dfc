"""Whatever comes, in whatever order: transitions follow one another as they must, and a dump changes nothing."""

from __future__ import annotations

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.contract.alert_commands import Command
from schemas.contract.alerts import Alert
from stream_jobs.alerts.life import Life
from stream_jobs.alerts.parts import PartCounts
from stream_jobs.alerts.policy import AlertPolicy
from tests.unit.stream_jobs.alerts.cases import RULESET, WINDOW, Scene, at

POLICY = AlertPolicy(
    hold_ms=2 * WINDOW,
    hold_max_ms=3 * WINDOW,
    flap_ms=3 * WINDOW,
    join_ms=6 * WINDOW,
    parts_max=4,
    open_max=3,
    waiting_max=2,
)
THINGS = (
    ("gpu_throttled", {"gpu_uuid": "g-10"}),
    ("gpu_throttled", {"gpu_uuid": "g-12"}),
    ("gpu_silent", {"gpu_uuid": "g-20"}),
    ("gpu_full", {"gpu_uuid": "g-10"}),
    ("host_silent", {"host": "h-1"}),
    ("host_silent", {"host": "h-2"}),
    ("engine_slow", {"engine_id": "h-1/e-0"}),
    ("engine_slow", {"engine_id": "h-2/e-0"}),
    ("engine_kv", {"engine_id": "h-1/e-1"}),
    ("version_slower", {"model": "llama", "model_version": "v1"}),
    ("model_slow", {"model": "llama"}),
    ("model_slow", {"model": "qwen"}),
    ("budget_burns", {"tenant": "t-llama", "model": "llama"}),
    ("fleet_errors", {"cluster": "c-1"}),
)
EVENTS = ("gpu_lost", "gpu_found", "xid", "clocks")
ACTIONS = st.one_of(
    st.tuples(st.just("window"), st.frozensets(st.integers(0, len(THINGS) - 1), max_size=5)),
    st.tuples(st.just("quiet"), st.integers(1, 5)),
    st.tuples(
        st.just("gpu"), st.tuples(st.sampled_from(EVENTS), st.sampled_from(["g-10", "g-20"]), st.integers(-3, 1))
    ),
    st.tuples(st.just("engine"), st.sampled_from(["lost", "found", "changed"])),
    st.tuples(st.just("mute"), st.sampled_from(["h-1", "h-2"])),
)


def play(actions: list[tuple[str, object]], dumped: frozenset[int]) -> Scene:
    """The scene after all actions; before those in ``dumped`` its life goes through a dump."""
    scene, firing = Scene(POLICY), frozenset[int]()
    for number, (kind, what) in enumerate(actions):
        if number in dumped:
            found, graph = orjson.loads(orjson.dumps(scene.life.dump())), scene.life.topology.dump()
            scene.life = Life(RULESET, lambda alert: scene.evidence, POLICY)
            scene.life.load(found)
            scene.life.topology.load(graph)
        if kind == "window":
            assert isinstance(what, frozenset)
            _see(scene, firing, what)
            firing = what
        elif kind == "quiet":
            assert isinstance(what, int)
            for _ in range(what):
                _see(scene, firing, frozenset())
                firing = frozenset()
        elif kind == "gpu":
            event, gpu, shift = what  # type: ignore[misc]
            info = event in ("gpu_found",) or shift == 0
            severity = "info" if info else "critical"
            scene.gpu_event(event, gpu, at(scene.window + shift) + 3, severity, code=64)
        elif kind == "engine":
            scene.engine_event(str(what), "h-2/e-0", model="llama")
        else:
            command = Command("mute", f"m-{what}", {"host": str(what)}, 0, at(scene.window + 3))
            scene.told += scene.life.command(command)
    return scene


def _see(scene: Scene, before: frozenset[int], firing: frozenset[int]) -> None:
    found = [scene.fire(THINGS[n][0], **THINGS[n][1]) for n in sorted(firing)]
    found += [scene.clear(THINGS[n][0], **THINGS[n][1]) for n in sorted(before - firing)]
    scene.see(*found, silent=tuple(f"h-{n - 3}" for n in (4, 5) if n in firing))


def check(told: list[Alert]) -> None:
    """Ids are unique, numbers have no gap, nothing is told of what is resolved unless it came back."""
    assert len({alert.transition_id for alert in told}) == len(told)
    last: dict[tuple[str, int], Alert] = {}
    for alert in told:
        before = last.get((alert.fingerprint, alert.opened_ms))
        assert (alert.transition == "opened") == (before is None) == (alert.number == 1)
        assert (alert.resolved_ms is not None) == (alert.transition == "resolved")
        if before is not None:
            assert (alert.number, alert.at_ms >= before.at_ms) == (before.number + 1, True)
            assert not before.transition == alert.transition == "resolved"
        last[alert.fingerprint, alert.opened_ms] = alert


@settings(max_examples=40)
@given(st.lists(ACTIONS, max_size=14))
def test_transitions_follow_one_another_and_everything_ends(actions: list[tuple[str, object]]) -> None:
    """Opened once, numbered without a gap; when nothing fires any more everything is resolved and forgotten."""
    scene = play(
        [*actions, ("gpu", ("gpu_found", "g-10", 1)), ("gpu", ("gpu_found", "g-20", 1)), ("engine", "found")],
        frozenset(),
    )
    for kind, what in reversed(actions):
        if kind == "window":
            assert isinstance(what, frozenset)
            _see(scene, what, frozenset())
            break
    for _ in range(12):
        scene.window += 20
        scene.see()

    check(scene.told)
    assert scene.open() == []
    assert scene.life.store.incidents == {}
    assert {key: value for key, value in scene.life.store.dump().items() if value}.keys() <= {"spent", "refused"}


@settings(max_examples=25)
@given(st.lists(ACTIONS, max_size=14), st.frozensets(st.integers(0, 13)))
def test_a_dump_anywhere_changes_nothing(actions: list[tuple[str, object]], dumped: frozenset[int]) -> None:
    """The same transitions, the same state; what is counted as parts come and go is what counting recounted gives."""
    whole, cut = play(actions, frozenset()), play(actions, dumped)

    for incident in whole.life.store.incidents.values():
        recounted = PartCounts()
        for part in incident.parts.values():
            recounted.count(part, 1)
        assert incident.counts == recounted
    assert cut.told == whole.told
    assert orjson.dumps(cut.life.dump()) == orjson.dumps(whole.life.dump())
    assert cut.life.topology.dump() == whole.life.topology.dump()
