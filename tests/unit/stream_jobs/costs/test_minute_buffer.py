"""The buffer: any order gives the same sums, bytes and bills; when a minute is told, final, late and forgotten."""

from __future__ import annotations

from collections import defaultdict
from random import Random
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from schemas.events.grouping import OTHER
from schemas.limits import MINUTE_MS
from stream_jobs.costs.minute_buffer import BufferLimits, MinuteBuffer
from stream_jobs.costs.rows import Words
from tests.unit.stream_jobs.costs.cases import (
    KEPT_MS,
    SETTLED_MS,
    Bill,
    Row,
    add,
    bills,
    facts,
    filled,
    gpu_row,
    newest,
    share_row,
    usage_row,
)


def test_a_minute_is_told_at_its_end_then_when_changed_then_final() -> None:
    """Not before its end, not without a change, not sooner than thirty seconds later; final by the longest request."""
    buffer = filled([usage_row("e", "t", 1)])

    assert buffer.pass_to(MINUTE_MS - 1) == []
    assert facts(buffer.pass_to(MINUTE_MS)) == [("group", 0, 0, False)]
    add(buffer, 7, usage_row("e", "t", 1))
    assert buffer.pass_to(MINUTE_MS + 29_999) == []
    assert facts(buffer.pass_to(MINUTE_MS + 30_000)) == [("group", 0, 7, False)]
    assert buffer.pass_to(SETTLED_MS - 1) == []
    assert facts(buffer.pass_to(SETTLED_MS)) == [("group", 0, 7, True)]
    assert buffer.pass_to(SETTLED_MS + 60_000) == []


def test_a_late_row_changes_a_final_minute_until_it_is_forgotten() -> None:
    """EmittedMinute again with a greater version; beyond that refused, and nothing of it is kept."""
    buffer = filled([usage_row("e", "t", 1)])
    first = buffer.pass_to(SETTLED_MS)

    assert add(buffer, 9, usage_row("e", "t", 1))
    again = buffer.pass_to(KEPT_MS - 1)
    assert facts(again) == [("group", 0, 9, True)]
    assert again[0].version > first[0].version
    assert buffer.pass_to(KEPT_MS) == []
    assert not add(buffer, 10, usage_row("e", "t", 1))
    assert (buffer.held, buffer.minutes, buffer.first_offset) == (0, {}, None)


def test_time_that_jumps_tells_everything_before_it_forgets() -> None:
    """A change of a moment ago is not lost by it."""
    buffer = filled([usage_row("e", "t", 1)])

    assert facts(buffer.pass_to(KEPT_MS + MINUTE_MS)) == [("group", 0, 0, True)]
    assert buffer.pass_to(0) == []
    assert buffer.passed_ms == KEPT_MS + MINUTE_MS


def test_a_minute_is_told_before_it_is_forgotten_even_if_it_should_wait() -> None:
    """A change beyond the rate limit's reach is told all the same."""
    buffer = filled([usage_row("e", "t", 1)], BufferLimits(every_ms=10**9))
    buffer.pass_to(SETTLED_MS)
    add(buffer, 2, usage_row("e", "t", 1))

    assert buffer.pass_to(KEPT_MS - 1) == []
    assert facts(buffer.pass_to(KEPT_MS)) == [("group", 0, 2, True)]


def test_groups_of_a_minute_are_told_each_for_itself() -> None:
    """A row of one group does not tell the others again."""
    buffer = MinuteBuffer()
    add(buffer, 1, usage_row("e", "t", 1), "one")
    add(buffer, 2, usage_row("f", "t", 1), "two")

    assert facts(buffer.pass_to(MINUTE_MS)) == [("one", 0, 1, False), ("two", 0, 2, False)]
    add(buffer, 3, usage_row("f", "t", 1), "two")
    assert facts(buffer.pass_to(MINUTE_MS + 30_000)) == [("two", 0, 3, False)]


def test_the_version_grows_with_the_final_row_of_an_unchanged_minute() -> None:
    """Provisional and final of one revision are two versions."""
    buffer = filled([usage_row("e", "t", 1)])

    told = buffer.pass_to(MINUTE_MS) + buffer.pass_to(SETTLED_MS)

    assert [one.version.tolist() for one in told] == [[0], [1]]


def test_what_was_told_does_not_change_with_rows_that_come_later() -> None:
    """A bill is that of its revision, whenever it is priced."""
    buffer = filled([usage_row("e", "t", 5)])
    told = buffer.pass_to(MINUTE_MS)
    add(buffer, 1, usage_row("e", "t", 7))

    assert [bill["lines"][0][7] for bill in bills(told)] == [5]


def test_limits_of_lines_and_minutes() -> None:
    """Further names are one line, sums stay; a minute too many is not taken."""
    buffer = MinuteBuffer(BufferLimits(lines_max=1, minutes_max=1))
    for offset, tenant in enumerate(("a", "b", "c", "a")):
        assert add(buffer, offset, usage_row("e", tenant, 5, "error" if tenant == "c" else "ok"))

    assert not add(buffer, 9, gpu_row("e", "g"), minute_ms=MINUTE_MS)
    (bill,) = bills(buffer.pass_to(MINUTE_MS))
    assert [(line[0], line[1], line[3], line[7]) for line in bill["lines"]] == [
        (OTHER, OTHER, "error", 5),
        (OTHER, OTHER, "ok", 5),
        ("a", "m", "ok", 10),
    ]


def test_null_and_a_number_add_to_the_number() -> None:
    """In either order; null and null stay null."""
    rows = [usage_row("e", None, None), usage_row("e", None, 3), usage_row("f", None, 3), usage_row("f", None, None)]

    told = bills(filled([*rows, usage_row("g", None, None)]).pass_to(MINUTE_MS))

    assert [bill["lines"][0][7] for bill in told] == [3, 3, None]


def test_words_that_nobody_uses_are_forgotten_and_bills_stay_the_same() -> None:
    """A fleet whose names change every day does not fill the memory."""
    few = BufferLimits(label_cardinality_max=20)
    buffer, plain = MinuteBuffer(few), MinuteBuffer()
    for minute in range(30):
        for one in (buffer, plain):
            row = usage_row(f"e-{minute}", f"t-{minute}", 5)
            add(one, minute, row, f"group-{minute}", minute * MINUTE_MS)
        told, expected = (one.pass_to((minute + 1) * MINUTE_MS) for one in (buffer, plain))
        assert facts(told) == facts(expected)
        buffer.forget_words()

    assert bills(buffer.pass_to(32 * MINUTE_MS)) == bills(plain.pass_to(32 * MINUTE_MS)) != []
    assert len(buffer.words) < len(plain.words) == 2 + 30 * 2 + 2
    assert len(buffer.groups) < len(plain.groups) == 31


def test_words_have_codes_and_null_is_none_of_them() -> None:
    """Each word once; the empty text is not null."""
    words = Words()

    assert [words.code(word) for word in (b"a", None, b"", b"a")] == [1, 0, 2, 1]
    assert words.list == [None, b"a", b""]


DECODED = st.one_of(st.none(), st.integers(0, 99))
ROWS = st.one_of(
    st.builds(
        gpu_row,
        st.sampled_from("ab"),
        st.sampled_from(["g1", "g2"]),
        model=st.sampled_from(["H100", "X"]),
        window=st.integers(0, 5),
        ms=st.sampled_from([4_000, 10_000]),
        starting=st.sampled_from([0, 2_500]),
    ),
    st.builds(gpu_row, st.sampled_from("ab"), st.sampled_from(["g1", "g2"]), ms=st.none()),
    st.builds(usage_row, st.sampled_from("abc"), st.sampled_from([None, "t", "u"]), DECODED),
    st.just(share_row("h", "g1", 3, use="idle")),
    st.builds(
        share_row,
        st.sampled_from("ab"),
        st.sampled_from(["g1", "m1"]),
        st.sampled_from([None, 4]),
        readings=st.sampled_from([1, 2]),
    ),
    st.builds(
        gpu_row,
        st.sampled_from("abc"),
        st.sampled_from(["m1", "m2"]),
        ms=st.sampled_from([None, 10_000]),
        parent=st.sampled_from(["g1", "g3"]),
        profile=st.sampled_from([None, "2g.20gb", "7g.80gb"]),
        host=st.sampled_from(["host-1", "host-2"]),
    ),
)
MINUTES = st.sampled_from([0, MINUTE_MS, 59 * MINUTE_MS, 60 * MINUTE_MS])
LOG = st.lists(st.tuples(ROWS, MINUTES, st.sampled_from(["one", "two"])), max_size=20)
FOREVER = BufferLimits(keep_ms=600 * MINUTE_MS)
Entry = tuple[Row, int, str]


def last_bills(log: list[Entry], pauses: set[int]) -> list[Any]:
    """EmittedMinute now and then; of each bill the greatest version, without its numbers."""
    buffer, found = MinuteBuffer(FOREVER), list[Bill]()
    for offset, (row, minute_ms, group) in enumerate(log):
        assert add(buffer, offset, row, group, minute_ms)
        if offset in pauses:
            found += bills(buffer.pass_to(60 * MINUTE_MS + offset * 11_000))
    found += bills(buffer.pass_to(60 * MINUTE_MS + SETTLED_MS))
    return [(key, {**bill, "version": 0, "revision": 0}) for key, bill in sorted(newest(found).items())]


def log_of(*rows: Row) -> list[Entry]:
    return [(row, 0, "one") for row in rows]


A_SHARE = share_row("a", "g1", 4)
WHOLE = gpu_row("b", "m1", parent="g3", profile="7g.80gb")
PART = gpu_row("a", "m2", parent="g3", profile="2g.20gb")
SIZELESS = gpu_row("b", "m1", parent="g3")


@given(log=LOG, seed=st.integers(0, 99), pauses=st.sets(st.integers(0, 24), max_size=3))
@example(log=log_of(A_SHARE, gpu_row("b", "g1", window=0)), seed=1, pauses={0})  # b is told, then its GPU is all a's
@example(log=log_of(WHOLE, PART), seed=1, pauses={0})  # slices are idle, then all are held
@example(log=log_of(SIZELESS, PART), seed=1, pauses={0})  # slices are idle, then nobody knows how many
@settings(max_examples=10)
def test_any_order_gives_the_same_bills(log: list[Entry], seed: int, pauses: set[int]) -> None:
    """Shuffled and told in between: the last rows are the same."""
    shuffled = list(log)
    Random(seed).shuffle(shuffled)

    assert last_bills(shuffled, pauses) == last_bills(log, set())


@given(log=LOG)
@settings(max_examples=10)
def test_minutes_hours_and_days_add_up(log: list[Entry]) -> None:
    """Whatever is added up by minute, hour or day: parts are bills, nano-dollar by nano-dollar."""
    buffer = MinuteBuffer()
    for offset, (row, minute_ms, group) in enumerate(log):
        add(buffer, offset, row, group, minute_ms)
    found = bills(buffer.pass_to(60 * MINUTE_MS + SETTLED_MS))

    for bucket_ms in (MINUTE_MS, 60 * MINUTE_MS, 1_440 * MINUTE_MS):
        whole: dict[int, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
        parts: dict[int, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
        for bill in found:
            for column, name in enumerate(("total_nusd", "energy_mj", "carbon_ug", "gpu_ms")):
                whole[bill["minute_ms"] // bucket_ms][column] += bill[name] or 0
            for part in bill["parts"]:
                for column, value in enumerate(part[7:]):
                    parts[bill["minute_ms"] // bucket_ms][column] += value or 0
        assert whole == parts


@given(log=LOG, seed=st.integers(0, 99))
@settings(max_examples=10)
def test_equal_states_have_equal_bytes(log: list[Entry], seed: int) -> None:
    """The same rows in another order at the same offsets' maximum; and load gives back what was dumped."""
    shuffled = list(log)
    Random(seed).shuffle(shuffled)
    buffers = [MinuteBuffer(), MinuteBuffer()]
    for buffer, rows in zip(buffers, (log, shuffled), strict=True):
        for row, minute_ms, group in rows:
            add(buffer, 5, row, group, minute_ms)

    assert buffers[0].dump() == buffers[1].dump()
    assert MinuteBuffer.load(buffers[0].dump(), BufferLimits()).dump() == buffers[0].dump()
