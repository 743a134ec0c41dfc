"""What counts as grown: the trend behind the start-up, against each amount's bound.

Covers lab.soak.judge and lab.soak.run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from fleetpulse.reconcile.compare import Report
from lab.soak.judge import Line, Sample, lines, trend
from lab.soak.run import Soak, on_disk

SECONDS, EVERY_S = 3_600, 30
MIB = 2**20


def flat(at_s: float) -> Sample:
    """The same at any time, but for what is kept; a reader's input is what 625 hosts send."""
    memory = {"sink": 200 * MIB, "kafka": 900 * MIB}
    return Sample(
        at_s,
        memory_bytes=memory,
        resident_bytes=memory,
        open_files={"sink": 40},
        lag={"windows": 5_625},
        ends={"windows": int(1_875 * at_s)},
        parts=500,
        files=9_000,
        disk_bytes=int(1e6 * at_s),
        query_p95_ms=80.0,
    )


def soak_of(change: Callable[[Sample], Sample] = lambda sample: sample, restarts: int = 0) -> Soak:
    """An hour of samples, each changed."""
    soak = Soak(625, SECONDS, [change(flat(at_s)) for at_s in range(0, SECONDS, EVERY_S)], {"sink": restarts})
    soak.books = Report((), 1, ())
    return soak


def grew(soak: Soak) -> set[str]:
    """Names of what failed."""
    return {line.name for line in soak.lines if line.holds is False}


def rising(sample: Sample, share: float) -> float:
    """1 until the start-up is over, then evenly more: in the last sample ``share`` more."""
    return 1 + share * max(0.0, sample.at_s - SECONDS / 3) / (SECONDS * 2 / 3)


def test_what_stays_as_it_is_holds() -> None:
    """Every amount has a verdict but the bytes that are kept."""
    soak = soak_of()

    assert soak.holds
    assert {line.name: line.holds for line in soak.lines} == {
        "memory of kafka": True,
        "memory of sink": True,
        "open files of sink": True,
        "lag of windows": True,
        "parts of tables": True,
        "files": True,
        "dashboard p95": True,
        "bytes on disk": None,
    }
    assert next(line for line in soak.lines if line.name == "lag of windows") == Line(
        "lag of windows", "s", 3.0, 3.0, 5.0, True
    )


@pytest.mark.parametrize(
    ("change", "name"),
    [
        pytest.param(
            lambda one: replace(
                one, memory_bytes={**one.memory_bytes, "sink": int(200 * MIB * rising(one, 0.08))}
            ),
            "memory of sink",
            id="memory",
        ),
        pytest.param(
            lambda one: replace(one, open_files={"sink": int(40 * rising(one, 0.5))}), "open files of sink", id="files"
        ),
        pytest.param(
            lambda one: replace(one, lag={"windows": int(5_625 * rising(one, 1.2))}), "lag of windows", id="lag"
        ),
        pytest.param(
            lambda one: replace(one, memory_bytes={**one.memory_bytes, "sink": int(200 * MIB * rising(one, 0.06))}),
            "memory of sink",
            id="memory, a little in each of 40 minutes",
        ),
        pytest.param(lambda one: replace(one, files=int(9_000 * rising(one, 0.06))), "files", id="files, a little"),
        pytest.param(lambda one: replace(one, lag={"windows": 37_500}), "lag of windows", id="lag that stays"),
        pytest.param(lambda one: replace(one, parts=int(500 * rising(one, 0.2))), "parts of tables", id="parts"),
        pytest.param(lambda one: replace(one, files=int(9_000 * rising(one, 0.2))), "files", id="files on disk"),
        pytest.param(lambda one: replace(one, query_p95_ms=80 * rising(one, 1.0)), "dashboard p95", id="queries"),
    ],
)  # fmt: skip
def test_each_amount_that_grows_fails_alone(change: Callable[[Sample], Sample], name: str) -> None:
    """Beyond its bound, from the end of the start-up on."""
    soak = soak_of(change)

    assert grew(soak) == {name}
    assert not soak.holds


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda one: replace(one, parts=100 if one.at_s < SECONDS / 3 else 500), id="while it starts up"),
        pytest.param(lambda one: replace(one, parts=5_000 if one.at_s == 3_000 else 500), id="in one sample"),
        pytest.param(lambda one: replace(one, parts=int(500 / rising(one, 1.0))), id="downwards"),
        pytest.param(lambda one: replace(one, parts=int(500 * rising(one, 0.045))), id="within the bound"),
    ],
)
def test_what_is_no_growth_holds(change: Callable[[Sample], Sample]) -> None:
    """A start-up, a merge that falls on a sample, and what shrinks."""
    assert soak_of(change).holds


def test_a_restart_fails() -> None:
    """Memory that was given back by dying is not flat."""
    soak = soak_of(restarts=1)

    assert grew(soak) == {"restarts of sink"}
    assert not soak.holds


def test_a_fleet_that_sends_less_than_it_should_proves_nothing() -> None:
    """Nothing grows under half a load; nor is anything proven where nobody saw how much it was."""
    less = soak_of(lambda one: replace(one, ends={"windows": int(one.ends["windows"] * 0.9)}))
    unseen = soak_of(lambda one: replace(one, ends={}, lag={}))

    assert (grew(less), grew(unseen)) == (set(), set())
    assert less.load_share == pytest.approx(0.9, abs=1e-4)
    assert less.notes == ["the fleet sent 90% of its records each second"]
    assert unseen.load_share is None
    assert (less.holds, unseen.holds, soak_of().load_share) == (False, False, 1.0)


def test_too_few_samples_or_an_early_end_prove_nothing() -> None:
    """There is no verdict, and so it does not hold; the numbers stand all the same."""
    short = soak_of()
    short.samples = short.samples[-9:]
    stopped = soak_of()
    stopped.stopped_s = 3_000.0

    assert {line.holds for line in short.lines} == {None}
    assert short.lines[0].begin == 900 * MIB
    assert (short.holds, stopped.holds) == (False, False)


def test_nothing_seen_is_no_line_that_holds() -> None:
    """A soak that was ended at once has no numbers."""
    assert {line.holds for line in lines([], SECONDS, {})} == {None}
    assert not Soak(1, SECONDS, books=Report((), 1, ())).holds


@pytest.mark.parametrize("books", [None, Report((), 0, ())], ids=["not compared", "inexact"])
def test_inexact_books_or_a_query_that_fails_do_not_hold(books: Report | None) -> None:
    """Whatever did not grow."""
    inexact, refused = soak_of(), soak_of()
    inexact.books = books
    refused.refused = {"fleet": "no such column"}

    assert (inexact.holds, refused.holds) == (False, False)


def test_files_are_counted_with_their_bytes(tmp_path: Path) -> None:
    """In folders of folders, too."""
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "one").write_bytes(b"12345")
    (tmp_path / "a" / "b" / "two").write_bytes(b"123")

    assert on_disk(tmp_path) == (2, 8)


def test_the_trend_is_that_of_most_samples() -> None:
    """Every fourth is an outlier; one alone has no slope."""
    seen = [(float(at), 1e6 if at % 4 == 3 else 10.0 + 0.5 * at) for at in range(0, 100)]

    begin, end = trend(seen)

    assert abs(begin - 10.0) < 1.0
    assert 59.5 <= end < 75.0
    assert trend([(7.0, 3.0)]) == (3.0, 3.0)
