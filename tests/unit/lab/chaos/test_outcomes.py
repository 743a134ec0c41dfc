"""Finals, bills and alerts against the truth: whole ones are exact, and each kind of mistake is found."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import pytest

from fleetpulse.audit.checks import Check
from fleetpulse.audit.report import Audit, Late
from fleetpulse.sql.database import Answer, Database
from lab.chaos import outcomes
from lab.chaos.compare import Comparison, compare
from lab.evaluate.pipeline import Spent, Windows
from lab.simulator.fleet import Step
from lab.simulator.plan import FleetPlan
from lab.simulator.truth import Truth, part_of
from schemas.contract.record import Output, Record
from schemas.contract.topics import ALERTS_TOPIC
from schemas.limits import MINUTE_MS
from schemas.rows import finals
from schemas.rows.finals import FinalsHeaders
from stream_jobs.alerts.step import output_of
from tests.unit.stream_jobs.alerts.log import Log, a_step

SECONDS, QUIET_S = 20, 50
"""Of a fleet, and of nothing after it, in which its windows pass."""
TOPICS = ("gpu.samples", "llm.requests", "host.samples", "engine.samples", "host.processes")


@pytest.fixture
def steps(small_plan: Callable[..., FleetPlan], steps_of: Callable[[FleetPlan, int, int], list[Step]]) -> list[Step]:
    return steps_of(small_plan(), 2, SECONDS)


def truth_of(steps: Sequence[Step]) -> Truth:
    return Truth(part_of(wide, 7) for step in steps for wide in step.wides if wide.topic in TOPICS)


# finals


@pytest.fixture
def finals_log(steps: list[Step]) -> list[Record]:
    """What the windows and the finals job make of them."""
    windows, begin_ms = Windows(Spent()), steps[-1].to_ms
    quiet = [
        replace(steps[-1], from_ms=begin_ms + 1_000 * at, to_ms=begin_ms + 1_000 * (at + 1), wides=())
        for at in range(QUIET_S)
    ]
    return [record for step in (*steps, *quiet) for record in windows.take(step)]


def compared(log: Sequence[Record], steps: Sequence[Step]) -> Comparison:
    return compare(outcomes.Finals(log).of, truth_of(steps))


def is_of(record: Record, topic: str) -> bool:
    headers = finals.decode(record.headers, "test")
    return isinstance(headers, FinalsHeaders) and finals.TOPIC_BY_SCHEMA.get(headers.schema) == topic


def again(record: Record, revision: int, upstream: int) -> Record:
    """The same rows, as another revision or of another upstream."""
    headers = finals.decode(record.headers, "test")
    assert isinstance(headers, FinalsHeaders)
    changed = replace(headers, revision=headers.revision + revision, upstream=upstream).encode()
    return record._replace(headers=changed)


def test_finals_of_the_real_jobs_are_exact(finals_log: list[Record], steps: list[Step]) -> None:
    """Every window and series, with sums, extremes, sketches and percentiles."""
    found = compared(finals_log, steps)

    assert found.exact, [str(one) for one in found.differences[:5]]
    assert (found.lost, found.doubled) == (0, 0)
    assert found.cells > 500
    assert found.percentiles > 100


def test_a_revision_replaces_a_row_and_another_upstream_adds_to_it(finals_log: list[Record], steps: list[Step]) -> None:
    """As readers of the topic take them: emitted again is no second event, of another partition it is."""
    gpus = [record for record in finals_log if is_of(record, "gpu.samples")]
    revised = compared([*finals_log, *(again(record, 1, 0) for record in gpus)], steps)
    older = compared([*finals_log, *(again(record, -1, 0) for record in gpus)], steps)
    doubled = compared([*finals_log, *(again(record, 0, 3) for record in gpus)], steps)

    assert revised.exact
    assert older.exact
    assert doubled.doubled > 0
    assert {one.topic for one in doubled.differences} == {"gpu.samples"}


def test_a_final_that_is_missing_is_lost(finals_log: list[Record], steps: list[Step]) -> None:
    """All of its events, in every grouping set."""
    gone = next(record for record in finals_log if is_of(record, "llm.requests"))

    found = compared([record for record in finals_log if record is not gone], steps)

    assert (found.exact, found.lost > 0, found.doubled) == (False, True, 0)


# bills


class Bills:
    """In the database's place: bills that are sums of the truth, changed as a test wants them."""

    def __init__(self, truth: Truth, change: Callable[[dict[tuple[Any, ...], list[int]]], None]) -> None:
        groups = truth["gpu.samples"].groups(("placement_group", "host"), MINUTE_MS)
        self._bills: dict[tuple[Any, ...], list[int]] = {}
        for place, field in enumerate(("interval_ms", "energy_mj")):
            for (minute_ms, group, host), measure in groups.measure(field).items():
                self._bills.setdefault((group or host, minute_ms), [0, 0])[place] += measure.total
        self.requests = truth.events()["llm.requests"]
        change(self._bills)

    def sql(self, text: str, parameters: Mapping[str, object] | None = None) -> Answer:
        if "cost_lines" in text:
            return Answer(("requests",), ((self.requests,),))
        names = ("placement_group", "minute_ms", "gpu_ms", "energy_mj")
        return Answer(names, tuple((*key, *amounts) for key, amounts in self._bills.items()))


@pytest.fixture
def bills(steps: list[Step], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Comparison]:
    """The comparison of bills with what the audit says of them."""
    truth = truth_of(steps)

    def judge(
        change: Callable[[dict[tuple[Any, ...], list[int]]], None] = lambda _bills: None,
        more_requests: int = 0,
        found: Audit | None = None,
    ) -> Comparison:
        database = Bills(truth, change)
        database.requests += more_requests
        monkeypatch.setattr(outcomes, "audit", lambda *_: found or AUDITED)
        return outcomes.bills(cast(Database, database), truth)

    return judge


AUDITED = Audit(0, 1, [Check("parts", 40, 0, 0, [])], 0, 0, 0, 0, [])


def test_bills_that_are_the_truth_are_exact(bills: Callable[..., Comparison]) -> None:
    """What the audit compared counts, too."""
    found = bills()

    assert found.exact
    assert found.cells > 40 + 2


def test_a_bill_that_is_missing_changed_or_of_nobody_is_found(bills: Callable[..., Comparison]) -> None:
    """By group, minute and amount."""

    def change(all_bills: dict[tuple[Any, ...], list[int]]) -> None:
        gone, changed, *_ = sorted(all_bills)
        keys.extend((gone, changed, ("nobody", changed[1])))
        del all_bills[gone]
        all_bills[changed][1] += 5
        all_bills["nobody", changed[1]] = [1_000, 0]

    keys: list[tuple[Any, ...]] = []

    found = bills(change)

    wrong = {(one.key, one.measure) for one in found.differences}
    assert wrong == {(keys[0], "gpu_ms"), (keys[0], "energy_mj"), (keys[1], "energy_mj"), (keys[2], "gpu_ms")}


@pytest.mark.parametrize(("more", "lost", "doubled"), [(-2, 2, 0), (3, 0, 3)], ids=["lost", "doubled"])
def test_requests_that_are_billed_twice_or_never_are_counted(
    more: int, lost: int, doubled: int, bills: Callable[..., Comparison]
) -> None:
    """Each is billed once."""
    found = bills(more_requests=more)

    assert (found.exact, found.lost, found.doubled) == (False, lost, doubled)


@pytest.mark.parametrize(
    ("found", "measure"),
    [
        pytest.param(replace(AUDITED, checks=[Check("priced again", 40, 1, 7, ["off"])]), "priced again", id="a check"),
        pytest.param(
            replace(AUDITED, late_gpu_rows=4, late=[Late(0, "g", 4, 4_000, 0, 0, 0)]),
            "stored rows in no bill",
            id="late",
        ),
        pytest.param(replace(AUDITED, unpriced="other prices"), "prices", id="not priced again"),
    ],
)  # fmt: skip
def test_what_the_audit_finds_is_a_difference(found: Audit, measure: str, bills: Callable[..., Comparison]) -> None:
    """Bills whose sums are right may be rated wrongly, or lack what came late."""
    judged = bills(found=found)

    assert not judged.exact
    assert [one.measure for one in judged.differences] == [measure]


# alerts


def story() -> list[Record]:
    """Engines whose queues grow and go, and a GPU that is lost."""
    log = Log()
    for window in range(30):
        for upstream in range(2):
            log.rows(upstream, window, {f"e-{upstream}": 900 if window % 9 < 4 else 1}, through=window + 1)
        if window == 7:
            log.gpu_event("gpu_lost", "g-7", 1)
    return log.records


def emitted() -> list[Record]:
    """What the alert job emits of the story."""
    step = a_step()
    state, changes = step.new("window.finals", 0), step.changes()
    step.fold(state, story(), changes)
    outputs = [output_of(alert) for alert in changes.alerts]
    return [as_record(number, output) for number, output in enumerate(outputs)]


def as_record(number: int, output: Output) -> Record:
    return Record(ALERTS_TOPIC, 0, number, 0, output.key, output.value, output.headers)


def test_transitions_of_an_undisturbed_fold_are_exact() -> None:
    """Records without a value take ended alerts off the topic, and are no transitions."""
    told = emitted()
    gone = as_record(99, Output(ALERTS_TOPIC, 0, b"fingerprint", None, ()))

    found = outcomes.alerts(a_step(), story(), [*told, gone])

    assert (found.exact, found.cells) == (True, len(told))
    assert found.cells > 5


@pytest.mark.parametrize(
    ("change", "lost", "doubled"),
    [
        pytest.param(lambda told: told[:-1], 1, 0, id="one is missing"),
        pytest.param(lambda told: [*told, told[3]], 0, 1, id="one came twice"),
        pytest.param(lambda told: [told[0]._replace(value=b"{}"), *told[1:]], 1, 1, id="one is another"),
        pytest.param(lambda told: [told[1], told[0], *told[2:]], 0, 0, id="two changed places"),
    ],
)
def test_every_mistake_in_transitions_is_found(
    change: Callable[[list[Record]], list[Record]], lost: int, doubled: int
) -> None:
    """To the byte and in order."""
    found = outcomes.alerts(a_step(), story(), change(emitted()))

    assert (found.exact, found.lost, found.doubled) == (False, lost, doubled)
