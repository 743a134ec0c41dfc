"""Every kind of difference is found and named; what may have expired is reported as unchecked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.errors import KafkaConnectionError

from fleetpulse.reconcile import compare as module
from fleetpulse.reconcile.compare import Report, compare, grown, reconcile
from fleetpulse.reconcile.holes import Hole
from fleetpulse.reconcile.tables import Cells, Cut, Line, Spans, Tables
from runtime import kafka_clients
from runtime.config import ClickHouseConfig, KafkaConfig
from schemas.contract.verdicts import Verdict
from schemas.errors import UnavailableError
from schemas.limits import DEFAULT_LIMITS, Limits

TOPIC = "host.samples"
SPOOL = "0123456789abcdef0123456789abcdef"
SINCE_MS = 1_000_000
LOG = {(TOPIC, 0): (0, 10)}
ACCEPTED, LATE, FUTURE = int(Verdict.ACCEPTED), int(Verdict.LATE), int(Verdict.FUTURE)


def booked(verdict: int, events: int, source: str = SPOOL, **change: int) -> dict[str, Any]:
    row = {"source": source, "boot": 1, "topic": TOPIC, "partition": 0, "verdict": verdict, "events": events}
    return {**row, "offset_first": 0, "offset_end": 10, "oldest_ms": SINCE_MS, **change}


def produced(events: int, **change: Any) -> dict[str, Any]:
    row = {"source": SPOOL, "boot": 1, "topic": TOPIC, "events": events, "shed": 0, "first_at_ms": SINCE_MS}
    return {**row, **change}


def sound() -> Tables:
    """Seven events: five accepted, one late, one rejected; and two without identity."""
    return Tables(
        since_ms=SINCE_MS,
        produced=[produced(7)],
        booked=[
            booked(ACCEPTED, 5),
            booked(LATE, 1),
            booked(int(Verdict.REJECTED), 1),
            booked(int(Verdict.DUPLICATE), 3),
            booked(ACCEPTED, 2, "", boot=0),
        ],
        spans={(TOPIC, 0): Spans(0, 10, [], SINCE_MS, 0)},
        partials={(TOPIC, 0, "host"): 7},
        rejected={(TOPIC, 0): 1},
        raw_booked={
            (TOPIC, 0, SPOOL, 1, ACCEPTED): (5, 0, 10),
            (TOPIC, 0, SPOOL, 1, LATE): (1, 0, 10),
            (TOPIC, 0, "", 0, ACCEPTED): (2, 0, 10),
        },
        raw={
            (TOPIC, 0, SPOOL, 1, ACCEPTED): (5, 1, 9),
            (TOPIC, 0, SPOOL, 1, LATE): (1, 4, 5),
            (TOPIC, 0, "", 0, ACCEPTED): (2, 7, 8),
        },
        windows=[Cells(TOPIC, "windows", 2, [])],
        rollups=[Cells(TOPIC, "level 1m", 1, [])],
    )


def only(report: Report) -> module.Difference:
    """The one difference of a report."""
    assert not report.exact
    (difference,) = report.differences
    return difference


def test_books_that_agree_are_exact() -> None:
    """Re-sends and records without identity stand beside the sum, and nothing is unchecked."""
    report = compare(LOG, sound())

    assert (report.exact, report.differences, report.unchecked) == (True, (), 0)
    books = next(one for one in report.topics if one.topic == TOPIC)
    assert (books.produced, books.accepted, books.late, books.future) == (7, 7, 1, 0)
    assert (books.rejected, books.duplicate, books.unidentified, books.shed) == (1, 3, 2, 0)


def test_nothing_compared_is_not_exact() -> None:
    """An empty answer proves nothing."""
    nothing = Tables(SINCE_MS, [], [], {}, {}, {}, {}, None, [], [])

    assert not compare({}, nothing).exact


def test_an_installation_where_nothing_was_produced_says_so() -> None:
    """Empty partitions and empty tables agree; one sentence says that this proves nothing."""
    nothing = Tables(SINCE_MS, [], [], {}, {}, {}, {}, {}, [], [])

    report = compare({(TOPIC, 0): (0, 0), (TOPIC, 1): (0, 0)}, nothing)

    assert report.text() == module.NOTHING
    report = report.as_dict()
    assert (report["exact"], report["empty"], report["produced"]) == (True, True, 0)


@pytest.mark.parametrize(
    ("log", "change"),
    [
        pytest.param({(TOPIC, 0): (0, 10)}, {}, id="a log nobody read"),
        pytest.param({(TOPIC, 0): (0, 0)}, {"produced": [produced(1)]}, id="an event on its way"),
        pytest.param({(TOPIC, 0): (0, 0)}, {"produced": [produced(0, shed=4)]}, id="all was shed"),
        pytest.param(
            {(TOPIC, 0): (0, 10)},
            {
                "booked": [booked(ACCEPTED, 2, "", boot=0)],
                "spans": {(TOPIC, 0): Spans(0, 10, [], SINCE_MS, 0)},
                "partials": {(TOPIC, 0, "host"): 2},
            },
            id="events without identity",
        ),
        pytest.param({}, {}, id="no log at all"),
    ],
)
def test_what_left_a_trace_is_not_nothing(log: module.Log, change: dict[str, Any]) -> None:
    """The table of books is shown as ever."""
    report = compare(log, replace(Tables(SINCE_MS, [], [], {}, {}, {}, {}, None, [], []), **change))

    assert not report.empty
    assert "comparisons" in report.text()


def test_the_sum_of_what_was_produced_is_told() -> None:
    """Over all topics."""
    report = compare(LOG, sound()).as_dict()

    assert (report["produced"], report["empty"]) == (7, False)


@pytest.mark.parametrize(
    ("change", "check", "words", "numbers"),
    [
        pytest.param(
            {"produced": [produced(8)]},
            module.PRODUCED,
            (TOPIC, SPOOL, "boot 1", "0:0-10"),
            (8, 7),
            id="an event that never arrived",
        ),
        pytest.param(
            {"produced": [produced(7), produced(2, source="other")]},
            module.PRODUCED,
            (TOPIC, "other"),
            (2, 0),
            id="a sender nobody heard of",
        ),
        pytest.param(
            {"spans": {(TOPIC, 0): Spans(0, 10, [(4, 6)], SINCE_MS, 0)}},
            module.OFFSETS,
            (TOPIC, "partition 0", "offset 4"),
            (4, 6),
            id="offsets that no commit covers",
        ),
        pytest.param(
            {"spans": {(TOPIC, 0): Spans(0, 9, [], SINCE_MS, 0)}},
            module.OFFSETS,
            (TOPIC, "end of the log"),
            (10, 9),
            id="records not read yet",
        ),
        pytest.param(
            {"spans": {(TOPIC, 0): Spans(2, 10, [], SINCE_MS, 0)}},
            module.OFFSETS,
            (TOPIC, "start of the log"),
            (0, 2),
            id="a start that was skipped",
        ),
        pytest.param(
            {"partials": {(TOPIC, 0, "host"): 6}},
            module.PARTIAL_ROWS,
            (TOPIC, "partition 0", "grouping set host"),
            (7, 6),
            id="a partial row that is missing",
        ),
        pytest.param(
            {"rejected": {}}, module.REJECTED_ROWS, (TOPIC, "partition 0"), (1, 0), id="a rejected row that is missing"
        ),
        pytest.param(
            {"windows": [Cells(TOPIC, "windows", 2, [("partition 0, grouping set host, window 20000", 3, 2)])]},
            module.WINDOWS,
            (TOPIC, "partition 0", "window 20000"),
            (3, 2),
            id="a window that lacks an event",
        ),
        pytest.param(
            {"rollups": [Cells(TOPIC, "level 1h", 2, [("level 1h, grouping set host, bucket 0", 3, 4)])]},
            module.ROLLUP_ROWS,
            (TOPIC, "level 1h", "bucket 0"),
            (3, 4),
            id="a rollup that counts twice",
        ),
        pytest.param(
            {"rollups": [Cells(TOPIC, "level 1h", 90, [], more=40)]},
            module.ROLLUP_ROWS,
            (TOPIC, "level 1h", "more"),
            (0, 40),
            id="more differences than are named",
        ),
    ],
)
def test_each_kind_of_difference_is_found_and_named(
    change: dict[str, Any], check: str, words: tuple[str, ...], numbers: tuple[int, int]
) -> None:
    """The check, the place and both numbers."""
    difference = only(compare(LOG, replace(sound(), **change)))

    assert difference.check == check
    assert [word for word in words if word not in difference.place] == []
    assert (difference.expected, difference.got) == numbers


def test_a_verdict_that_nobody_knows_is_a_difference() -> None:
    """Whoever may write books may write any number; all else is compared as ever."""
    tables = sound()

    difference = only(compare(LOG, replace(tables, booked=[*tables.booked, booked(9, 4)])))

    assert difference.check == module.VERDICTS
    assert difference.place == f"topic {TOPIC}, partition 0, source {SPOOL}, verdict 9"
    assert (difference.expected, difference.got) == (0, 4)


def test_a_raw_row_too_many_is_named_with_its_sender_and_offsets() -> None:
    """Source, boot, partition, verdict and where in the log to look."""
    tables = sound()
    raw = {**(tables.raw or {}), (TOPIC, 0, SPOOL, 1, FUTURE): (1, 6, 7)}

    difference = only(compare(LOG, replace(tables, raw=raw)))

    assert difference.check == module.RAW_ROWS
    assert difference.place == f"topic {TOPIC}, partition 0, source {SPOOL}, boot 1, offsets 6-7, future"
    assert (difference.expected, difference.got) == (0, 1)


def test_a_verdict_that_differs_between_books_and_raw_rows_is_two_differences() -> None:
    """An event the job took in time must not read late in the raw table."""
    tables = sound()
    raw = dict(tables.raw or {})
    raw[TOPIC, 0, SPOOL, 1, ACCEPTED], raw[TOPIC, 0, SPOOL, 1, LATE] = (4, 1, 9), (2, 4, 5)

    found = compare(LOG, replace(tables, raw=raw)).differences

    assert [(one.check, one.expected, one.got) for one in found] == [(module.RAW_ROWS, 5, 4), (module.RAW_ROWS, 1, 2)]


def test_without_raw_tables_they_are_not_compared() -> None:
    """A sink with --no-raw keeps none."""
    tables = replace(sound(), raw=None, raw_booked={}, windows=[])

    assert compare(LOG, tables).exact
    assert compare(LOG, tables).checks < compare(LOG, sound()).checks


def test_a_log_that_nobody_read_is_a_difference() -> None:
    """No commit at all covers it."""
    difference = only(compare({**LOG, (TOPIC, 1): (3, 5)}, sound()))

    assert (difference.check, difference.expected, difference.got) == (module.OFFSETS, 5, 3)


def test_a_log_whose_start_expired_is_whole() -> None:
    """Kafka keeps records for a day, books are kept longer."""
    assert compare({(TOPIC, 0): (6, 10)}, sound()).exact


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"produced": [produced(99, first_at_ms=SINCE_MS - 1)]}, id="a boot older than the books"),
        pytest.param(
            {"spans": {(TOPIC, 0): Spans(0, 10, [], SINCE_MS - 1, 0)}, "partials": {(TOPIC, 0, "host"): 4}},
            id="partial rows that may have expired",
        ),
        pytest.param(
            {"spans": {(TOPIC, 0): Spans(0, 10, [], SINCE_MS - 1, 0)}, "rejected": {}},
            id="rejected rows that may have expired",
        ),
    ],
)
def test_a_sum_that_may_lack_expired_rows_is_unchecked_not_wrong(change: dict[str, Any]) -> None:
    """It is counted apart and said."""
    report = compare(LOG, replace(sound(), **change))

    assert (report.exact, report.unchecked) == (True, 1)
    assert report.checks == compare(LOG, sound()).checks - 1
    assert "1 more could not be made" in report.text()


def test_a_report_reads_as_text_and_as_json() -> None:
    """Both say whether all is exact and name every difference."""
    report = compare(LOG, replace(sound(), rejected={}))

    assert "1 differences" in report.text()
    assert report.as_dict()["exact"] is False
    assert report.as_dict()["differences"][0]["check"] == module.REJECTED_ROWS


def test_where_kafka_is_away_its_client_is_stopped_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fetches are bounded before there is a client, and none is left to the garbage collector."""
    seen: list[object] = []

    class Away:
        def __init__(self, **_: object) -> None:
            seen.append("made")

        async def start(self) -> None:
            raise KafkaConnectionError("refused")

        async def stop(self) -> None:
            seen.append("stopped")

    monkeypatch.setattr(kafka_clients, "AIOKafkaConsumer", Away)
    monkeypatch.setattr(module, "bound_fetches", seen.append)
    limits = Limits()

    with pytest.raises(UnavailableError, match="does not return its log ids"):
        reconcile(KafkaConfig(bootstrap="127.0.0.1:1"), ClickHouseConfig(), limits=limits)

    assert seen == [limits, "made", "stopped"]


def test_partitions_that_grew_are_counted() -> None:
    """Also one that is new; retention, which moves the first offset, is no growth."""
    before = {(TOPIC, 0): (0, 10), (TOPIC, 1): (0, 4), (TOPIC, 2): (0, 0)}

    assert grown(before, before) == 0
    assert grown(before, {**before, (TOPIC, 0): (5, 10)}) == 0
    assert grown(before, {**before, (TOPIC, 0): (0, 11), (TOPIC, 3): (0, 1), (TOPIC, 4): (0, 0)}) == 2


def looked_at(monkeypatch: pytest.MonkeyPatch, ends: list[int], tables: list[Tables]) -> list[Cut]:
    """A log that grows and tables that change from look to look; the cuts that were compared."""
    cuts: list[Cut] = []
    logs, looks, landed = iter(ends), iter(tables), iter([{(TOPIC, 0): end} for end in ends])

    async def log(_kafka: KafkaConfig) -> module.Log:
        return {(TOPIC, 0): (0, next(logs))}

    def read(_database: object, cut: Cut, *_: object, **__: object) -> Tables:
        cuts.append(cut)
        return replace(next(looks), produced=cut.produced)

    def lines(_database: object, known: Sequence[Line] = ()) -> Sequence[Line]:
        return known or [produced(7, seq_to=3)]

    async def ours(_kafka: KafkaConfig) -> None:
        """The topics are of this deployment."""

    monkeypatch.setattr(module, "check_deployment", ours)
    monkeypatch.setattr(module, "_log_offsets", log)
    monkeypatch.setattr(module, "LOOK_EVERY_S", 0)
    monkeypatch.setattr(module, "Database", lambda _config, **_: SimpleNamespace(close=lambda: None))
    monkeypatch.setattr(module, "read_tables", read)
    monkeypatch.setattr(module, "read_produced", lines)
    monkeypatch.setattr(module, "read_ends", lambda _database: next(landed))
    return cuts


def reconciled(wait_s: float, limits: Limits = DEFAULT_LIMITS) -> Report:
    return reconcile(KafkaConfig(bootstrap="127.0.0.1:1"), ClickHouseConfig(), wait_s=wait_s, limits=limits)


def test_beside_running_producers_a_cut_is_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    """Producers' lines stay those of the first look; the end of the commits moves on until the books reach them, and
    no further: what lacks a row then waits for it at the same cut."""
    behind = replace(sound(), booked=[booked(ACCEPTED, 2)])
    lacking = replace(sound(), rejected={})
    cuts = looked_at(monkeypatch, [10, 12, 14, 16], [behind, lacking, sound()])

    report = reconciled(60.0)

    assert (report.exact, report.growing) == (True, 1)
    assert [cut.ends[TOPIC, 0] for cut in cuts] == [10, 12, 12]
    assert [[line["events"] for line in cut.produced] for cut in cuts] == [[7], [7], [7]]
    assert [cut.growing for cut in cuts] == [True, True, True]
    assert module.GROWING.format(1) in report.text()
    assert module.ON_ITS_WAY not in report.text()


def test_a_report_beside_running_producers_that_stays_wrong_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """The exit code stays, the text says what to do to be sure."""
    looked_at(monkeypatch, [10, 12], [replace(sound(), rejected={})])

    report = reconciled(0.0)

    assert (report.exact, report.growing, report.as_dict()["growing"]) == (False, 1, 1)
    assert module.ON_ITS_WAY in report.text()


def test_events_behind_a_producers_line_take_no_part() -> None:
    """Seven are in its line, two more have landed since; what is lost before the line is found all the same."""
    more = replace(sound(), produced=[produced(5, seq_to=3)], behind={(SPOOL, 1, TOPIC): 2})
    lost = replace(more, behind={(SPOOL, 1, TOPIC): 3})

    assert compare(LOG, more, 1).exact
    assert (only(compare(LOG, lost, 1)).expected, only(compare(LOG, lost, 1)).got) == (8, 7)


def test_a_log_may_grow_while_it_is_compared_and_only_then() -> None:
    """Books behind the end of the log are of records that came since; in a log that rests they are wrong."""
    begun = {(TOPIC, 0): (0, 8)}

    assert compare(begun, sound(), 1).exact
    assert only(compare(begun, sound())).check == module.OFFSETS


def test_what_a_cut_leaves_out_is_said() -> None:
    """Buckets that are written; and without raw rows, that nothing was cut."""
    assert module.OPEN.format(6) in compare(LOG, replace(sound(), open_buckets=6), 1).text()
    assert module.NO_CUT in compare(LOG, replace(sound(), raw=None), 1).text()
    assert module.GROWING.format(0) not in compare(LOG, sound()).text()


HOLE = Hole("windows", TOPIC, 0, 4, 6)


def test_what_a_reset_left_out_is_declared_where_raw_rows_have_it() -> None:
    """Two events more were produced; they are in no window, and raw rows say whose they are."""
    tables = replace(sound(), produced=[produced(9)], holes=[HOLE], missing={(SPOOL, 1, TOPIC): 2})

    report = compare(LOG, tables)

    assert report.exact
    assert report.missing == 2
    assert f"declared missing by windows: topic {TOPIC}, partition 0, offsets 4-6" in report.text()
    assert report.as_dict()["holes"][0]["first"] == 4


def test_a_hole_of_which_all_rows_are_kept_excuses_no_sender() -> None:
    """Whose its events are is known, so what another sender lacks is a difference."""
    report = compare(LOG, replace(sound(), produced=[produced(8)], holes=[HOLE], gone={TOPIC: 0}))

    assert (only(report).check, report.declared) == (module.PRODUCED, ())


def test_what_nobody_has_any_more_is_declared_as_far_as_the_hole_had_room() -> None:
    """Two records hold at most two thousand events; more are a difference, and so are events too many."""
    room = 2 * DEFAULT_LIMITS.batch_events_max

    fits, too_many, doubled = (
        compare(LOG, replace(sound(), produced=[produced(7 + more)], holes=[HOLE], gone={TOPIC: 2}))
        for more in (room, room + 1, -1)
    )

    assert (fits.exact, len(fits.declared)) == (True, 1)
    assert only(too_many).check == only(doubled).check == module.PRODUCED
    assert not too_many.declared


@pytest.mark.parametrize(("events", "declared"), [(3, 1), (2, 0)])
def test_a_hole_has_room_for_as_many_events_as_a_record_may_have(
    events: int, declared: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the limits of the installation: three events are short, of one record."""
    nobodys = [booked(ACCEPTED, 2), booked(LATE, 1), booked(int(Verdict.REJECTED), 1), booked(ACCEPTED, 5, "", boot=0)]
    tables = replace(sound(), booked=nobodys, holes=[HOLE], gone={TOPIC: 1})
    looked_at(monkeypatch, [10, 10], [tables])

    report = reconciled(0.0, replace(DEFAULT_LIMITS, batch_events_max=events))

    assert (len(report.declared), len(report.differences)) == (declared, 1 - declared)


def test_a_hole_of_another_job_excuses_nothing() -> None:
    """It is listed; the books of the windows job have no part in it."""
    report = compare(LOG, replace(sound(), produced=[produced(9)], holes=[HOLE._replace(job="finals")]))

    assert only(report).check == module.PRODUCED
    assert "declared missing by finals" in report.text()
