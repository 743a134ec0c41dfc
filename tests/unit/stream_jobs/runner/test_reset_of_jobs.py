"""Resets of the jobs' own steps: what a state knows of offsets is of the log before, and nothing of it is needed again.

Each job folds its log, an owner takes over, and the log is made anew, cut, or left out in part: after the reset the job
goes on, and of what came behind the damage it sends what it would have sent without.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from runtime.counters import Counters
from schemas.contract.alerts import Alert, decode
from schemas.contract.headers import Identity
from schemas.contract.record import Output, Record
from schemas.contract.topics import ALERTS_TOPIC, COSTS_TOPIC, WINDOW_FINALS, WINDOW_PARTIALS
from schemas.errors import ConfigError
from schemas.limits import DEFAULT_LIMITS, MINUTE_MS
from schemas.rows.finals import PROGRESS_SCHEMA
from stream_jobs.alerts.step import AlertStep
from stream_jobs.rules.model import Function, Measure, Rule, RuleSet
from stream_jobs.runner.job import Names, Source
from stream_jobs.runner.policy import PROMPT_POLICY
from stream_jobs.runner.reset import CLOCKS_APART_MS, Reset, Resetting
from tests.unit.stream_jobs.alerts import log as finals_log
from tests.unit.stream_jobs.alerts.cases import at
from tests.unit.stream_jobs.costs import cases as costs
from tests.unit.stream_jobs.finals import cases as finals
from tests.unit.stream_jobs.runner.memory_broker import BEGAN_MS, Scene
from tests.unit.stream_jobs.windows import cases as windows

WINDOWS = 12
MARGIN_MS = PROMPT_POLICY.transaction_timeout_ms + CLOCKS_APART_MS
AFTER = WINDOWS + 4 + (DEFAULT_LIMITS.hot_ms + MINUTE_MS + MARGIN_MS) // windows.WINDOW_MS + 2
"""A window so late that no record which nobody read can have held a part of it."""


@dataclass(frozen=True)
class Case:
    """A job. ``records`` are those of windows ``[first, stop)``; ``told`` is what matters of the outputs on ``output``
    about windows from a number on."""

    step: Callable[[], Any]
    topic: str
    output: tuple[str, int]
    records: Callable[[int, int], list[Record]]
    told: Callable[[Sequence[Record], int], Any]
    gapless: bool = False


def _samples(first: int, stop: int) -> list[Record]:
    starts = [windows.BASE_MS + number * windows.WINDOW_MS for number in range(first, stop)]
    return [
        windows.a_record("gpu.samples", [windows.a_sample(at_ms)], identity=Identity(windows.SOURCE, 1, n, (1, 0)))
        for n, at_ms in enumerate(starts, first)
    ]


def _partials(first: int, stop: int) -> list[Record]:
    """GPU samples and requests of each window, whose end is announced with the next."""
    upstream = finals.Upstream(links=False)
    for number in range(first, stop):
        at_ms = windows.BASE_MS + number * finals.WINDOW_MS
        upstream.commit(finals.SAMPLES, at_ms, finals.sample_rows(at_ms))
        upstream.commit(finals.REQUESTS, at_ms, finals.request_rows(at_ms))
    return upstream.log


def _usage(first: int, stop: int) -> list[Record]:
    log = costs.Log()
    for window in range(first, stop):
        log.gpu(window, [costs.a_gpu("g1")], through=window + 1)
        log.usage(window, [costs.a_line("a")], through=window + 1)
    return log.records


def _finals(first: int, stop: int) -> list[Record]:
    """Of two upstreams; the second has not told of the last window yet, which waits. A queue is long in each third."""
    log = finals_log.Log()
    for window in range(first, stop):
        log.rows(0, window, {"e-0": 900 if window % 3 == 0 else 1}, through=window + 1)
        if window < stop - 1:
            log.rows(1, window, {"e-1": 1}, through=window + 1)
    return log.records


def _rows(records: Sequence[Record], since: int) -> Any:
    return [(dict(one.headers)["schema"], one.value) for one in records if dict(one.headers)["rows"] != b"0"]


def _finals_told(records: Sequence[Record], since: int) -> Any:
    outputs = [Output(one.topic, 0, None, one.value or b"", one.headers) for one in records]
    first_ms = windows.BASE_MS + since * finals.WINDOW_MS
    heads = [finals.headers_of(one) for one in outputs]
    rows = [(head.window_ms, head.complete, one.value) for head, one in zip(heads, outputs, strict=True) if head.rows]
    return [one for one in rows if one[0] >= first_ms]


def _bills(records: Sequence[Record], since: int) -> Any:
    rows = costs.emitted_rows([Output(one.topic, 0, None, one.value or b"", one.headers) for one in records])
    # revision and version are offsets, which another log counts anew
    kept = [row for row in rows if row["minute_ms"] >= costs.BASE_MS + since * windows.WINDOW_MS]
    return [{name: value for name, value in row.items() if name not in ("revision", "version")} for row in kept]


def _alerts(records: Sequence[Record], since: int) -> Any:
    alerts: list[Alert] = [decode(one.value or b"") for one in records if one.value]
    late = [one for one in alerts if one.at_ms >= at(since)]
    return [(one.transition, one.at_ms) for one in late]


CASES = {
    "windows": Case(windows.a_step, "gpu.samples", (WINDOW_PARTIALS, 0), _samples, _rows, gapless=True),
    "finals": Case(finals.a_step, WINDOW_PARTIALS, (WINDOW_FINALS, 0), _partials, _finals_told),
    "costs": Case(costs.a_step, WINDOW_PARTIALS, (COSTS_TOPIC, 0), _usage, _bills),
    "alerts": Case(finals_log.a_step, WINDOW_FINALS, (ALERTS_TOPIC, 0), _finals, _alerts),
}


def _made_anew(scene: Scene, more: Sequence[Record]) -> str:
    """The topic was deleted and made again; as yet it holds less than what was counted."""
    scene.log.records, scene.log.begin, scene.log.end = [], 0, 0
    scene.log.add(more[0])
    return "earliest"


def _cut(scene: Scene, more: Sequence[Record]) -> str:
    """Retention took what nobody had read."""
    scene.log.records, scene.log.begin, scene.log.end = [], scene.log.end + 3, scene.log.end + 3
    scene.log.add(more[0])
    return "earliest"


def _forgotten(scene: Scene, more: Sequence[Record]) -> str:
    """Retention took all that had been counted, and with it what the snapshot needs."""
    scene.log.records, scene.log.begin = [], scene.log.end
    scene.log.add(more[0])
    return "earliest"


def _left_out(scene: Scene, more: Sequence[Record]) -> str:
    """Somebody chose to leave out what nobody had read."""
    for record in more[:3]:
        scene.log.add(record)
    return "latest"


DAMAGES = {"made anew": _made_anew, "cut": _cut, "forgotten": _forgotten, "left out": _left_out}


async def before(case: Case) -> Scene:
    """Twelve windows were folded and committed, with a snapshot in the middle of them."""
    scene = Scene(case.step(), case.topic, gapless=case.gapless)
    records = case.records(0, WINDOWS)
    owner = await scene.owner()
    for part in (records[:15], records[15:]):
        if part:
            await owner.feed([scene.log.add(record) for record in part])
            await owner.commit()
    await owner.stop()
    return scene


async def after(case: Case, scene: Scene, owner: Any = None) -> Any:
    """What an owner tells of windows that come much later."""
    told = scene.memory.log(*case.output)
    told.records.clear()
    owner = owner or await scene.owner()
    await owner.feed([scene.log.add(record) for record in case.records(AFTER, AFTER + 24)])
    await owner.commit()
    await owner.stop()
    return case.told(told.records, AFTER)


def _moments(case: Case, scene: Scene) -> list[int]:
    """Beginnings of the windows or minutes of which rows were sent."""
    found = case.told(scene.memory.log(*case.output).records, 0)
    return [one["minute_ms"] if case.output[0] == COSTS_TOPIC else one[0] for one in found]


async def reset(scene: Scene, to: str) -> Reset:
    """At the time of the last record of the log."""
    scene.clock.now_s = (max(record.timestamp_ms for record in scene.log.records) - BEGAN_MS) / 1_000
    owner = resetting(scene)
    plan = await owner.plan(to)
    await owner.carry_out(plan, lambda reset, commit: [])
    return plan


def resetting(scene: Scene) -> Resetting:
    source, names = Source(scene.topic, 0, scene.gapless), Names("d", scene.step.name)
    return Resetting(scene.step, source, scene.memory, names, PROMPT_POLICY, scene.clock, Counters())


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("job", CASES)
async def test_a_job_goes_on_exactly_behind_the_damage(job: str, damage: str) -> None:
    """Whatever its state knew of offsets; and so does the owner after the one that comes next."""
    case = CASES[job]
    expected = await after(case, await before(case))
    scene = await before(case)
    to = DAMAGES[damage](scene, case.records(WINDOWS, WINDOWS + 4))
    counted = scene.memory.offset
    assert counted is not None

    plan = await reset(scene, to)
    owner = await scene.owner()
    if owner.position > owner.committed:
        await owner.commit()
    await owner.stop()

    assert (plan.counted_to, plan.is_another_log) == (counted.offset, damage == "made anew")
    assert expected
    assert await after(case, scene) == expected


async def test_finals_of_windows_that_lost_rows_are_not_sent() -> None:
    """Rows of the window that the first record is of may have stood in the log before, too: no part of it is taken for
    the whole. So may those of the next minute or two, of a worker whose clock was behind. No record from before can
    have held rows of those that follow, which are sent as ever."""
    case = CASES["finals"]
    more = case.records(WINDOWS, WINDOWS + 24)
    sent = []
    for is_made_anew in (False, True):
        scene = await before(case)
        if is_made_anew:
            await reset(scene, _made_anew(scene, more))
        told = scene.memory.log(*case.output)
        told.records.clear()
        owner = await scene.owner()
        await owner.feed([scene.log.add(record) for record in more[is_made_anew:]])
        await owner.commit()
        sent.append(case.told(told.records, WINDOWS))

    first_ms = windows.BASE_MS + WINDOWS * finals.WINDOW_MS
    assert [one[0] for one in sent[0]][:2] == [first_ms, first_ms]
    assert sent[1] == [one for one in sent[0] if one[0] > first_ms + MARGIN_MS]


async def test_finals_say_what_was_lost_before_they_say_how_far_they_have_come() -> None:
    """Who reads them would else take the machines of this partition for silent, in windows that are whole."""
    case = CASES["finals"]
    scene = await before(case)
    more = case.records(WINDOWS, WINDOWS + 24)
    await reset(scene, _made_anew(scene, more))
    told = scene.memory.log(*case.output)
    told.records.clear()

    owner = await scene.owner()
    for record in more[1:]:
        await owner.feed([scene.log.add(record)])
        await owner.commit()

    outputs = [Output(one.topic, 0, None, one.value or b"", one.headers) for one in told.records]
    heads = [finals.headers_of(one) for one in outputs]
    lost = [one for one in heads if one.schema == PROGRESS_SCHEMA and one.window_ms]
    through = [one.through_ms for one in heads if one.through_ms]
    assert heads[:1] == lost[:1]
    assert {(one.window_ms, one.through_ms) for one in lost} == {(through[0], 0)}


async def test_finals_of_a_long_outage_are_not_sent() -> None:
    """What was lost may be of any time before the first record that is left: hours, where nothing was read so long."""
    case = CASES["finals"]
    scene = await before(case)
    await reset(scene, _made_anew(scene, case.records(WINDOWS + 1_000, WINDOWS + 1_001)))
    told = scene.memory.log(*case.output)
    told.records.clear()

    owner = await scene.owner()
    await owner.feed([scene.log.add(record) for record in case.records(WINDOWS + 900, WINDOWS + 1_024)])
    await owner.commit()

    first_ms = windows.BASE_MS + (WINDOWS + 1_000) * finals.WINDOW_MS
    assert min(one[0] for one in case.told(told.records, 0)) == first_ms + MARGIN_MS + finals.WINDOW_MS


@pytest.mark.parametrize("behind_s", [-3_600, 0, 3_600])
@pytest.mark.parametrize("to", ["earliest", "latest"])
async def test_what_is_lost_may_be_newer_than_any_clock_that_is_read(
    to: str, behind_s: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first record that is left has its worker's clock; where none is left, the last record and whoever resets have
    clocks, of which the later one counts."""
    case, bounds = CASES["finals"], list[int]()
    scene = await before(case)
    monkeypatch.setattr(scene.step, "begin_again", lambda state, offset, lost_to_ms: bounds.append(lost_to_ms))
    scene.log.begin, scene.log.records, scene.log.end = scene.log.end + 9, [], scene.log.end + 9
    first, *_, last = [scene.log.add(record) for record in case.records(WINDOWS, WINDOWS + 4)]
    scene.log.end += 1  # a marker

    scene.clock.now_s = (last.timestamp_ms - BEGAN_MS) / 1_000 - behind_s
    owner = resetting(scene)
    await owner.carry_out(await owner.plan(to), lambda reset, commit: [])

    newest_ms = last.timestamp_ms + 1_000 * max(0, -behind_s)
    assert bounds == [(first.timestamp_ms if to == "earliest" else newest_ms) + MARGIN_MS]


@pytest.mark.parametrize("job", ["finals", "costs"])
@pytest.mark.parametrize("left", [0, 1, 4], ids=["nothing", "one record", "some records"])
async def test_without_a_snapshot_no_part_of_a_window_is_taken_for_the_whole(job: str, left: int) -> None:
    """Retention has deleted what was counted, but for some records: nothing tells what else their windows had."""
    case = CASES[job]
    scene = await before(case)
    scene.memory.log(f"state.{scene.step.name}.{case.topic}").records.clear()
    scene.log.begin, scene.log.records = scene.log.end - left, scene.log.records[len(scene.log.records) - left :]
    for record in case.records(WINDOWS, WINDOWS + 4):
        scene.log.add(record)

    assert (await reset(scene, "earliest")).cause == "snapshot_lost"
    assert await after(case, scene)

    first_ms = scene.log.records[0].timestamp_ms
    assert min(_moments(case, scene)) > first_ms - first_ms % MINUTE_MS
    assert min(_moments(case, scene)) > first_ms - finals.WINDOW_MS


@pytest.mark.parametrize(("job", "base_ms"), [("finals", windows.BASE_MS), ("costs", costs.BASE_MS)])
async def test_a_partition_that_never_had_an_owner_sends_no_part_of_a_window(job: str, base_ms: int) -> None:
    """What was left out were the first records of a window."""
    case = CASES[job]
    scene = Scene(case.step(), case.topic, gapless=case.gapless)
    records = case.records(0, AFTER + 24)
    scene.log.add(records[0])
    await reset(scene, "latest")

    owner = await scene.owner()
    await owner.feed([scene.log.add(record) for record in records[1:]])
    await owner.commit()

    assert min(_moments(case, scene)) > base_ms


async def test_alerts_are_judged_from_the_first_record_of_a_log_made_anew() -> None:
    """The windows that its first records end may lack some: they are judged as incomplete; those after them are not."""
    case = CASES["alerts"]
    scene = await before(case)
    more = case.records(WINDOWS, WINDOWS + 4)
    await reset(scene, _made_anew(scene, more))

    state = scene.step.load(case.topic, 0, list(scene.step.dump((await scene.owner())._state)))
    scene.step.fold(state, [scene.log.add(record) for record in more[1:]], scene.step.changes())

    judged = [window for window in state.detector.seen if window[0] >= at(WINDOWS - 1)]
    assert judged == [(at(WINDOWS + n), n > 0) for n in range(-1, 3)]


@pytest.mark.parametrize("lacks", [False, True], ids=["the file of the job", "another file"])
async def test_alerts_are_not_reset_under_a_file_that_lacks_rules_of_open_ones(lacks: bool) -> None:
    """They would end, and nobody would have said so. Nothing is changed."""
    case, log, rule = CASES["alerts"], finals_log.Log(), a_rule("queue")
    scene = Scene(alert_step([rule]), case.topic, gapless=False)
    for window in range(3):
        log.rows(0, window, {"e-0": 900}, through=window + 1)
        log.rows(1, window, {"e-1": 1}, through=window + 1)
    owner = await scene.owner()
    await owner.feed([scene.log.add(record) for record in log.records])
    await owner.commit()
    await owner.stop()
    assert [decode(one.value or b"").transition for one in scene.memory.log(*case.output).records] == ["opened"]
    before = scene.memory.offset

    scene.step = alert_step([a_rule("other")] if lacks else [rule, a_rule("other")])
    if lacks:
        with pytest.raises(ConfigError, match=r"--rules.*it lacks queue, of which alerts are open"):
            await reset(scene, "latest")
        assert scene.memory.offset == before
    else:
        await reset(scene, "latest")


async def test_a_rule_that_was_removed_on_purpose_is_not_missed() -> None:
    """The job runs without it already; no window has come since."""
    case, log = CASES["alerts"], finals_log.Log()
    scene = Scene(alert_step([a_rule("queue")]), case.topic, gapless=False)
    for window in range(3):
        log.rows(0, window, {"e-0": 900}, through=window + 1)
        log.rows(1, window, {"e-1": 1}, through=window + 1)
    owner = await scene.owner()
    await owner.feed([scene.log.add(record) for record in log.records])
    await owner.commit()
    await owner.stop()

    scene.step = alert_step([a_rule("other")])
    owner = await scene.owner()
    await owner._commit(scene.clock.now_ms(), whole=True)
    await owner.stop()

    assert (await reset(scene, "latest")).cause is None


def a_rule(name: str) -> Rule:
    """Fires where engines have more than ``HOT_MS`` waiting."""
    waiting = Measure("waiting", "engine.samples", Function.MEAN, "waiting")
    options = {"above": float(finals_log.HOT_MS)}
    return Rule(name, "threshold", (waiting,), ("engine_id",), "warning", "s", "a", options=options)


def alert_step(rules: list[Rule]) -> AlertStep:
    """With the detector as it is."""
    return AlertStep(2, RuleSet(tuple(rules)))
