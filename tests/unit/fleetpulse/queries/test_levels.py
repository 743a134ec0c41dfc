"""A range is covered once, whatever its length and ends, by the rows of its levels."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetpulse.queries.levels import Source, read_source
from schemas.limits import DAY_MS, HOUR_MS, MINUTE_MS, WINDOW_MS

WIDTHS_MS = {"partials": WINDOW_MS, "1m": MINUTE_MS, "1h": HOUR_MS, "1d": DAY_MS}
REQUESTS = read_source("llm.requests 10s <= 30m, 1m <= 6h, 1h <= 2d, 1d")
COSTS = read_source("costs 1m <= 6h, 1h <= 2d, 1d")
BOOKS = read_source("books 1m <= 6h, 1h <= 2d, 1d")
NEVER_MS = 30_000 * DAY_MS
_FIRST_KEPT = re.compile(r"ifNull\(\(SELECT minOrNull\(window_ms\) FROM \w+_partials WHERE [^()]+\), \d+\)")
_PART = re.compile(r"FROM \w+_(partials|1m|1h|1d) FINAL\s+WHERE (.+?)\s*(?=UNION|\)$)", re.DOTALL)


def covered(
    source: Source,
    from_ms: int,
    to_ms: int,
    *,
    ends: bool = False,
    length: bool = True,
    now_ms: int = NEVER_MS,
    kept_from_ms: int = 0,
) -> list[tuple[int, int]]:
    """What the rows of a range hold, as stretches of time, by evaluating the conditions of its text; with ``ends`` of
    the text that leaves out levels without a window, without ``length`` of the one for ranges of any length. Rows of
    10 s are gone before ``kept_from_ms``."""
    span_ms = to_ms - from_ms if length else None
    text = source.rows(span_ms, "SELECT event_count", (from_ms, to_ms) if ends else None)
    text = text.replace("{from_ms:Int64}", str(from_ms)).replace("{to_ms:Int64}", str(to_ms))
    text = text.replace(f"least({to_ms}, (SELECT toUnixTimestamp64Milli(now64(3))))", str(min(to_ms, now_ms)))
    text = _FIRST_KEPT.sub(str(max(from_ms, kept_from_ms)), text)
    found = []
    for level, where in _PART.findall(text):
        width_ms = WIDTHS_MS[level]
        condition = re.sub(r"intDiv\(([^,]+), (\d+)\)", r"((\1) // \2)", " ".join(where.split()))
        condition = condition.replace("AND", "and").replace("OR", "or")
        held = eval(f"lambda window_ms: {condition}")
        starts = range(from_ms // DAY_MS * DAY_MS, to_ms, width_ms)
        gone_ms = kept_from_ms if width_ms == WINDOW_MS else 0
        found += [(at_ms, at_ms + width_ms) for at_ms in starts if at_ms >= gone_ms and held(at_ms)]
    return sorted(found)


moments = st.integers(20_000 * DAY_MS, 20_003 * DAY_MS)
lengths = st.sampled_from([WINDOW_MS, 7 * MINUTE_MS, HOUR_MS + 1, 7 * HOUR_MS, 26 * HOUR_MS, 3 * DAY_MS])


def test_rows_of_labels_alone_are_those_of_all_but_for_copies() -> None:
    """What a copy agrees in needs no FINAL."""
    sql = "SELECT DISTINCT engine_id FROM x"

    assert REQUESTS.rows(DAY_MS, sql, final="") == REQUESTS.rows(DAY_MS, sql).replace(" FINAL", "")
    assert "FINAL" in REQUESTS.rows(DAY_MS, sql)


def test_labels_are_those_of_whole_hours_and_of_what_is_newer() -> None:
    """Each level begins where what is coarser ends; of a long range days come first."""
    source = read_source("llm.requests 1m <= 1m, 1h <= 2d, 1d")
    tables = {
        span_ms: re.findall(r"FROM (llm_requests_\w+)\n", source.seen(span_ms, "SELECT tenant FROM x"))
        for span_ms in (MINUTE_MS, HOUR_MS, 3 * DAY_MS, None)
    }

    of_level = {level: f"llm_requests_rollup_{level}" for level in ("1m", "1h", "1d")}
    assert tables[MINUTE_MS] == [of_level["1m"]]
    assert tables[HOUR_MS] == [of_level["1h"], of_level["1m"]]
    assert tables[3 * DAY_MS] == tables[None] == [of_level["1d"], of_level["1h"], of_level["1m"]]
    assert source.seen(HOUR_MS, "SELECT tenant FROM x").count(f"max(last_at_ms) FROM {of_level['1h']}") == 1


@settings(max_examples=20, deadline=None)
@given(from_ms=moments, length_ms=lengths, more_ms=st.integers(0, 3 * HOUR_MS))
def test_every_window_that_begins_in_a_range_is_read_once(from_ms: int, length_ms: int, more_ms: int) -> None:
    """From the first to the last, without a gap and without an overlap."""
    to_ms = from_ms + length_ms + more_ms

    found = covered(REQUESTS, from_ms, to_ms)

    assert found[0][0] == -(-from_ms // WINDOW_MS) * WINDOW_MS
    assert found[-1][1] == -(-to_ms // WINDOW_MS) * WINDOW_MS
    assert all(end == begin for (_, end), (begin, _) in pairwise(found))


@settings(max_examples=20, deadline=None)
@given(
    source=st.sampled_from([REQUESTS, COSTS, BOOKS]),
    ago_ms=st.integers(-3 * DAY_MS, 3 * DAY_MS),
    from_ms=moments,
    grain_ms=st.sampled_from([1, WINDOW_MS, MINUTE_MS, HOUR_MS, DAY_MS]),
    length_ms=lengths,
)
def test_levels_without_a_window_of_the_range_are_left_out(
    source: Source, ago_ms: int, from_ms: int, grain_ms: int, length_ms: int
) -> None:
    """What is read stays the same, whenever it is; each level that is read has something to give, if that is known."""
    from_ms, to_ms = from_ms // grain_ms * grain_ms, (from_ms + length_ms) // grain_ms * grain_ms
    text = source.rows(to_ms - from_ms, "SELECT event_count", (from_ms, to_ms))

    found = covered(source, from_ms, to_ms, ends=True, now_ms=to_ms + ago_ms)

    assert found == covered(source, from_ms, to_ms, now_ms=to_ms + ago_ms)
    *finer, _ = [WIDTHS_MS[level] for level, _ in _PART.findall(text)]
    assert source is not REQUESTS or set(finer) <= {end - begin for begin, end in found}


@settings(max_examples=40, deadline=None)
@given(
    source=st.sampled_from([REQUESTS, COSTS, BOOKS]),
    ago_ms=st.integers(-3 * DAY_MS, 3 * DAY_MS),
    from_ms=moments,
    length_ms=st.one_of(lengths, st.sampled_from([30 * MINUTE_MS, 6 * HOUR_MS, 2 * DAY_MS])),
    more_ms=st.sampled_from([0, 1, 3 * MINUTE_MS]),
)
def test_a_text_for_any_length_reads_what_the_one_for_that_length_reads(
    source: Source, ago_ms: int, from_ms: int, length_ms: int, more_ms: int
) -> None:
    """The same windows of the same levels, and its points are as wide."""
    to_ms = from_ms + length_ms + more_ms
    width = source.grain_sql().replace("{from_ms:Int64}", str(from_ms)).replace("{to_ms:Int64}", str(to_ms))
    *bounds, widest = width.removeprefix("multiIf(").removesuffix(")").split(", ")
    wide = next((int(one) for holds, one in zip(bounds[::2], bounds[1::2], strict=True) if eval(holds)), int(widest))

    found = covered(source, from_ms, to_ms, length=False, now_ms=to_ms + ago_ms)

    assert found == covered(source, from_ms, to_ms, now_ms=to_ms + ago_ms)
    assert wide == source.grain_ms(to_ms - from_ms)


def test_a_range_whose_rows_of_10_s_are_gone_is_read_by_minutes() -> None:
    """Whatever its length: by the minutes that begin in it, and its points are no closer."""
    aged, from_ms = REQUESTS.by_minutes(), 20_000 * DAY_MS + 30_000

    found = covered(aged, from_ms, from_ms + 10 * MINUTE_MS)

    assert {end - begin for begin, end in found} == {MINUTE_MS}
    assert len(found) == 10
    assert (aged.level(1), aged.grain_ms(1)) == ("1m", MINUTE_MS)
    assert read_source("gpu.samples 10s <= 1h, 1h").by_minutes().levels == (("1m", HOUR_MS), ("1h", None))
    assert COSTS.by_minutes() == COSTS


@pytest.mark.parametrize("gone_ms", [0, 4 * MINUTE_MS, 10 * MINUTE_MS])
def test_a_text_for_any_length_reads_minutes_before_the_first_row_of_10_s(gone_ms: int) -> None:
    """Once each: what is no longer kept by 10 s, and nothing else."""
    from_ms = 20_000 * DAY_MS

    found = covered(REQUESTS, from_ms, from_ms + 10 * MINUTE_MS, length=False, kept_from_ms=from_ms + gone_ms)

    assert sum(end - begin == MINUTE_MS for begin, end in found) == gone_ms // MINUTE_MS
    assert sum(end - begin == WINDOW_MS for begin, end in found) == (10 * MINUTE_MS - gone_ms) // WINDOW_MS
    assert all(end == begin for (_, end), (begin, _) in pairwise(found))


def test_a_query_that_names_the_width_of_a_row_is_told_it() -> None:
    """Of each level, in a column of its own; a parameter of that name is none."""
    text = REQUESTS.rows(None, "SELECT sum(event_count) / width_ms FROM x")

    assert re.findall(r"SELECT event_count, toInt64\((\d+)\) AS width_ms\n", text) == [*map(str, WIDTHS_MS.values())]
    assert "AS width_ms" not in REQUESTS.rows(None, "SELECT event_count, intDiv(window_ms, {width_ms:Int64}) FROM x")


def test_the_middle_is_read_from_the_level_of_the_length_and_the_edges_from_finer_ones() -> None:
    """A day from 15:39:20: 4 windows, 20 minutes, 23 hours, 39 minutes, 2 windows."""
    begin_ms = 20_000 * DAY_MS + 15 * HOUR_MS + 39 * MINUTE_MS + 20_000

    widths = [end - begin for begin, end in covered(REQUESTS, begin_ms, begin_ms + DAY_MS)]

    counts = {width: widths.count(width) for width in WIDTHS_MS.values()}
    assert counts == {WINDOW_MS: 6, MINUTE_MS: 20 + 39, HOUR_MS: 23, DAY_MS: 0}


@pytest.mark.parametrize("future_ms", [-HOUR_MS, 0, 5 * HOUR_MS])
@pytest.mark.parametrize(("source", "settles_ms"), [(COSTS, HOUR_MS), (BOOKS, 2 * MINUTE_MS)])
def test_what_still_changes_is_read_from_finer_rows(source: Source, settles_ms: int, future_ms: int) -> None:
    """Hours of bills that ended within the last hour come from minutes, the last two minutes of books from lines; the
    last ones of all where a range ends in the future, as today's does."""
    from_ms = 20_000 * DAY_MS + 90_000
    to_ms = from_ms + 9 * HOUR_MS
    last_ms = to_ms - max(future_ms, 0)

    found = covered(source, from_ms, to_ms, now_ms=to_ms - future_ms)

    assert max(end for begin, end in found if end - begin == HOUR_MS) <= last_ms - settles_ms
    assert found[-1][1] == (to_ms + 30_000 if source is COSTS else (last_ms - settles_ms) // MINUTE_MS * MINUTE_MS)
    assert all(end == begin for (_, end), (begin, _) in pairwise(found))


def test_only_columns_that_a_query_names_are_read() -> None:
    """In the order of their first mention, and those that a page chooses."""
    text = REQUESTS.rows(1, "SELECT sum(event_count), {bins:Identifier} FROM x WHERE window_ms > 1 AND nothing = 'x'")

    assert "SELECT event_count, window_ms, {bins:Identifier}\n" in text
