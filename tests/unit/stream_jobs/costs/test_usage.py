"""Usage: by hand at the edges, against integration millisecond by millisecond, and through to the money.

Covers stream_jobs.costs.usage_kernels.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_jobs.costs.bill import GpuMinutes, Holders, bills_of
from stream_jobs.costs.split import REQUEST, WASTED, WEIGHTS, Lines, split
from stream_jobs.costs.usage import Assumptions, Requests, UsageSums
from stream_jobs.costs.wide import UNKNOWN, Ints, ints
from tests.unit.stream_jobs.costs.oracle import Work, bill, shares, spent

NAMES = tuple(Requests.__slots__)
USUAL: dict[str, int | None] = {
    "at_ms": 125_000,
    "e2e_us": 20_000_000,
    "queue_us": 5_000_000,
    "ttft_us": 10_000_000,
    "prefill_us": None,
    "decode_us": None,
    "input_tokens": 1_000,
    "cached_tokens": 200,
    "output_tokens": 100,
}
KINDS = ("prefill", "cached", "decode", "kv")
SURE = {"untimed": 0, "no_first_token": 0, "cached_unknown": 0, "tokens_unknown": 0, "disordered": 0, "clipped": 0}


def requests(*rows: dict[str, int | None]) -> Requests:
    return Requests(**{name: ints([(USUAL | row)[name] for row in rows]) for name in NAMES})


@dataclass(frozen=True)
class Usage:
    """A row for each window that a request touched, by request and then by window; a line for each amount."""

    window_ms: Ints
    request: Ints
    amounts: Ints


def usage_of(given: Requests, window_ms: int = 10_000) -> tuple[Usage, Assumptions]:
    """Each request under a key of its own, in windows of 10 s; begins with too little room."""
    sums, count = UsageSums(1, window_ms), len(given.at_ms)
    sums.add(given, np.arange(count), count, 0, count)
    return Usage(sums.windows, sums.keys, np.ascontiguousarray(sums.cells.T)), sums.assumptions


def rows_of(usage: Usage) -> list[tuple[int | None, ...]]:
    """Rows of (window in s, uncached, cached, decode, KV token-ms)."""
    listed = zip(*(column.tolist() for column in (usage.window_ms // 1_000, *usage.amounts[1:])), strict=True)
    return [tuple(None if value == UNKNOWN else value for value in row) for row in listed]


@pytest.mark.parametrize(
    ("row", "rows", "assumptions"),
    [
        pytest.param(
            {},
            [(110, 800, 200, 50, 10_125_000), (120, 0, 0, 50, 5_375_000)],
            {},
            id="prefill in [110, 115) s, decode in (115, 125]: bends inside a window",
        ),
        pytest.param(
            {"e2e_us": 10_000_000, "at_ms": 130_000, "queue_us": 0, "ttft_us": 0},
            [(120, 800, 200, 100, 10_500_000)],
            {},
            id="an end on the bound leaves no row behind it",
        ),
        pytest.param(
            {"e2e_us": 10_000_000, "at_ms": 130_001, "queue_us": 0, "ttft_us": 5_000_000},
            [(120, 800, 200, 99, 10_248_900), (130, 0, 0, 1, 1_100)],
            {},
            id="an end just behind the bound",
        ),
        pytest.param(
            {"e2e_us": 0, "at_ms": 130_000, "queue_us": 0, "ttft_us": 0},
            [(130, 800, 200, 100, 0)],
            {},
            id="no length at all, on a bound",
        ),
        pytest.param(
            {"ttft_us": None, "output_tokens": 0, "e2e_us": 15_000_000, "queue_us": 0},
            [(110, 533, 133, 0, 10_000_000), (120, 267, 67, 0, 5_000_000)],
            {"no_first_token": 1},
            id="failed before the first token: the prompt over all of it",
        ),
        pytest.param(
            {"ttft_us": None, "queue_us": None, "e2e_us": 20_000_000, "at_ms": 130_000},
            [(110, 400, 100, 50, 10_250_000), (120, 400, 100, 50, 10_750_000)],
            {"no_first_token": 1},
            id="not streamed: prompt and answer over all of it",
        ),
        pytest.param(
            {"ttft_us": None, "decode_us": 10_000_000},
            [(110, 800, 200, 50, 10_125_000), (120, 0, 0, 50, 5_375_000)],
            {},
            id="the engine tells decode instead of the tracker",
        ),
        pytest.param(
            {"ttft_us": None, "prefill_us": 5_000_000},
            [(110, 800, 200, 50, 10_125_000), (120, 0, 0, 50, 5_375_000)],
            {},
            id="the engine tells prefill",
        ),
        pytest.param(
            {"e2e_us": None},
            [(120, 800, 200, 100, None)],
            {"untimed": 1},
            id="no end to end time: all in the window of the end",
        ),
        pytest.param(
            {"cached_tokens": None},
            [(110, 1_000, None, 50, 10_125_000), (120, 0, None, 50, 5_375_000)],
            {"cached_unknown": 1},
            id="cached untold: the whole prompt counts as computed",
        ),
        pytest.param(
            {"input_tokens": None, "cached_tokens": None},
            [(110, None, None, 50, None), (120, None, None, 50, None)],
            {"tokens_unknown": 1},
            id="prompt untold: null, not 0",
        ),
        pytest.param(
            {"output_tokens": None},
            [(110, 800, 200, None, None), (120, 0, 0, None, None)],
            {"tokens_unknown": 1},
            id="answer untold: null, not 0",
        ),
        pytest.param(
            {"queue_us": 12_000_000},
            [(110, 800, 200, 37, 3_056_250), (120, 0, 0, 63, 5_343_750)],
            {"disordered": 1},
            id="scheduled after the first token",
        ),
        pytest.param(
            {"cached_tokens": 1_200, "e2e_us": 5_000_000, "queue_us": 0, "ttft_us": 5_000_000},
            [(120, 0, 1_200, 100, 5_000_000)],
            {},
            id="more cached than asked: nothing is computed",
        ),
        pytest.param(
            {"at_ms": 5_000},
            [(0, 800, 200, 100, 15_500_000)],
            {"clipped": 1},
            id="a beginning before the epoch",
        ),
    ],
)
def test_a_request_by_hand(
    row: dict[str, int | None], rows: list[tuple[int | None, ...]], assumptions: dict[str, int]
) -> None:
    """1,000 prompt tokens, 200 cached, 100 generated; started at 105 s, computed from 110, first token at 115."""
    usage, seen = usage_of(requests(row))

    assert rows_of(usage) == rows
    assert seen == Assumptions(requests=1, **(SURE | assumptions))


def test_a_request_of_an_hour_is_clipped_to_the_oldest_window() -> None:
    """91 windows at most; what is older is in the first, and nothing is lost."""
    hour: dict[str, int | None] = {"at_ms": 3_605_000, "e2e_us": 3_600_000_000, "queue_us": 0, "ttft_us": 1_800_000_000}

    usage, seen = usage_of(requests(hour))

    assert seen == Assumptions(requests=1, **(SURE | {"clipped": 1}))
    assert len(usage.window_ms) == 91
    assert rows_of(usage)[0][:4] == (2_700, 800, 200, 50)
    assert usage.amounts.sum(axis=1).tolist() == [1, 800, 200, 100, 3_600_000_000 + 180_000_000 // 2]


def test_one_window_less_is_not_clipped() -> None:
    """A request that began in the oldest window is whole."""
    assert usage_of(requests({"at_ms": 905_000, "e2e_us": 905_000_000, "queue_us": 0}))[1].clipped == 0
    assert usage_of(requests({"at_ms": 910_000, "e2e_us": 900_000_001, "queue_us": 0}))[1].clipped == 1


def test_bills_are_by_the_minute() -> None:
    """What is not said otherwise: the request of 105 to 125 s in two minutes, its neighbour of the same key added."""
    sums = UsageSums(8)
    rows: list[dict[str, int | None]] = [{}, {"at_ms": 190_000}, {}, {"cached_tokens": None}]

    sums.add(requests(*rows), ints([1, 0, -1, 1]), 2, 0, 4)

    assert sums.rows == 4
    assert sums.windows.tolist() == [60_000, 120_000, 120_000, 180_000]
    assert sums.keys.tolist() == [1, 1, 0, 0]
    assert sums.cells.tolist() == [
        [0, 1_800, 200, 100, 20_250_000],
        [2, 0, 0, 100, 10_750_000],
        [0, 800, 200, 0, 5_000_000],
        [1, 0, 0, 100, 10_500_000],
    ]
    assert sums.assumptions == Assumptions(requests=3, **(SURE | {"cached_unknown": 1}))


def test_no_requests() -> None:
    """Nothing in, nothing out."""
    usage, seen = usage_of(requests())

    assert rows_of(usage) == []
    assert asdict(seen) == {"requests": 0, **SURE}


MAYBE_TIME = st.one_of(st.none(), st.integers(0, 3_600_000_000))
MAYBE_TOKENS = st.one_of(st.none(), st.integers(0, 100_000_000))
ANY = st.fixed_dictionaries(
    {
        "at_ms": st.integers(0, 2**42),
        **dict.fromkeys(("e2e_us", "queue_us", "ttft_us", "prefill_us", "decode_us"), MAYBE_TIME),
        **dict.fromkeys(("input_tokens", "cached_tokens", "output_tokens"), MAYBE_TOKENS),
    }
)


@given(rows=st.lists(ANY, max_size=4))
@settings(max_examples=70)
def test_rows_add_up_to_the_request_whatever_it_tells(rows: list[dict[str, int | None]]) -> None:
    """Totals exactly, null where null, nothing negative, windows in a row, each request as if it were alone."""
    usage, _ = usage_of(requests(*rows))

    alone = [usage_of(requests(row))[0] for row in rows]
    assert rows_of(usage) == [row for one in alone for row in rows_of(one)]
    for row, one in zip(rows, alone, strict=True):
        asked, cached = row["input_tokens"], row["cached_tokens"]
        computed = None if asked is None else max(0, asked - (cached or 0))
        assert [total_of(column) for column in one.amounts[1:4]] == [computed, cached, row["output_tokens"]]
        assert total_of(one.amounts[4]) == occupancy(row)
        assert one.amounts[0].tolist() == [0] * (len(one.window_ms) - 1) + [1]
        assert (np.diff(one.window_ms) == 10_000).all()
        assert one.amounts[one.amounts != UNKNOWN].min() >= 0


def total_of(column: np.ndarray) -> int | None:
    assert len(column)
    assert len(set((column == UNKNOWN).tolist())) == 1
    return None if column[0] == UNKNOWN else int(column.sum())


def occupancy(row: dict[str, int | None]) -> int | None:
    """Token-milliseconds of a whole request, by the definition: prompt times all, half of the answer times its span."""
    e2e, prompt, answer = (row[name] for name in ("e2e_us", "input_tokens", "output_tokens"))
    if e2e is None or prompt is None or answer is None:
        return None
    queue = row["queue_us"] or 0
    lasting = max(e2e - queue, 0)
    told = [row["ttft_us"], None if row["decode_us"] is None else e2e - row["decode_us"]]
    told.append(None if row["prefill_us"] is None else queue + row["prefill_us"])
    first = next((moment for moment in told if moment is not None), queue)
    span = min(max(e2e - first, 0), lasting)
    return prompt * lasting // 1_000 + answer * span // 2_000


@st.composite
def works(draw: st.DrawFn) -> Work:
    began = draw(st.integers(0, 200))
    first = began + draw(st.integers(0, 60))
    prompt = draw(st.integers(0, 50))
    cached = draw(st.integers(0, prompt))
    return Work(began, first, first + draw(st.integers(0, 90)), prompt, cached, draw(st.integers(0, 40)))


def requests_of(listed: list[Work]) -> Requests:
    """The same as events; the queue is the 7 ms before."""
    rows: list[dict[str, int | None]] = [
        {
            "at_ms": work.end,
            "e2e_us": (work.end - work.began + 7) * 1_000,
            "queue_us": 7_000,
            "ttft_us": (work.first - work.began + 7) * 1_000,
            "input_tokens": work.prompt,
            "cached_tokens": work.cached,
            "output_tokens": work.answer,
        }
        for work in listed
    ]
    return requests(*rows)


@given(work=works())
@settings(max_examples=60)
def test_windows_agree_with_integration_by_the_millisecond(work: Work) -> None:
    """Windows of 50 ms: tokens within one, occupancy within two token-milliseconds of the exact integral."""
    usage, _ = usage_of(requests_of([work]), window_ms=50)

    for i, window in enumerate(usage.window_ms.tolist()):
        # What happens at once on the bound at the very end belongs to the last window that the request touched.
        until = window + 50 + (i == len(usage.window_ms) - 1)
        exact = spent(work, window, until)
        off = [abs(amount - exact[name]) for name, amount in zip(KINDS, usage.amounts[1:, i].tolist(), strict=True)]
        assert max(off[:3]) < 1
        assert off[3] < 2


@given(listed=st.lists(works(), min_size=1, max_size=4), nusd=st.integers(1, 10**11), energy_mj=st.integers(0, 10**8))
@settings(max_examples=40)
def test_the_money_agrees_with_integration_by_the_millisecond(listed: list[Work], nusd: int, energy_mj: int) -> None:
    """A minute of 400 ms: each part is off its exact share by a nano-dollar or two and what whole tokens make of it.

    Whole numbers move a request's weight by less than ``slack`` = one token of each kind and two token-ms; a part then
    moves by at most ``bill * (slack of its own + share * slack of all) / weights``, and the rounding of the parts.
    """
    usage, _ = usage_of(requests_of(listed), window_ms=400)
    columns = {name: usage.amounts[1 + KINDS.index(name)] for name in ("prefill", "decode", "kv")}
    by_work = {name: np.zeros(len(listed), dtype=np.int64) for name in columns}
    for name, column in columns.items():
        np.add.at(by_work[name], usage.request, column)
    lines = Lines(ints([0] * len(listed)), np.zeros(len(listed), dtype=np.bool_), *by_work.values())
    gpu = GpuMinutes(*(ints([one]) for one in (400, energy_mj, nusd, 0, 10**8, 1_250_000, 0)))
    bills = bills_of(gpu, Holders(ints([0]), ints([0]), ints([1])), 1)

    parts = split(bills, ints([WASTED]), ints([0]), lines)

    weights = {"prefill": WEIGHTS.prefill_token, "decode": WEIGHTS.decode_token, "kv": WEIGHTS.kv_token_ms}
    exact_bill = bill(400, nusd, energy_mj, 10**8, Fraction(5, 4))
    assert abs(bills.total_nusd[0] - exact_bill) <= 1
    exact = shares(listed, 0, 401, weights)
    total = sum((amount for one in exact for amount in one.values()), Fraction(0))
    slack = sum(weights.values()) + weights["kv"]
    if total <= slack * len(listed):
        return  # a few tokens: whole ones and parts of one have little to do with one another
    for i in range(len(parts.bill)):
        assert parts.part[i] == REQUEST
        share = exact[parts.line[i]][list(weights)[parts.kind[i]]] / total
        moved = exact_bill * slack * (1 + share * len(listed)) / (total - slack * len(listed))
        assert abs(parts.cost_nusd[i] - exact_bill * share) <= moved + 2
