"""``stream_jobs.alerts.marks``: which deployments stand beside an alert."""

from __future__ import annotations

from typing import Any

import pytest

from schemas.limits import HOUR_MS
from stream_jobs.alerts.marks import AFTER_MS, SHOWN_MAX, Marks, mark_of

NOW_MS = 1_800_000_000_000


def marked(at_ms: int, **given: Any) -> dict[str, Any]:
    """The row of an engine event."""
    return {"at_ms": at_ms, "kind": "marked", "model": "m", "model_version": "v2", **given}


def marks_of(*rows: dict[str, Any], marks_max: int = 100) -> Marks:
    marks = Marks(marks_max, HOUR_MS)
    for row in rows:
        marks.add(mark_of(row))
    return marks


def test_a_version_is_told_once_with_its_hosts() -> None:
    """From its first event on; what is unknown is None, a missing message is empty."""
    hosts = ("h-1", "h-2", "h-1", None)
    rows = [marked(NOW_MS - 10 + n, host=host, engine_id=f"e-{n}") for n, host in enumerate(hosts)]

    assert marks_of(*rows).of("m", None, NOW_MS) == [
        {
            "at_ms": NOW_MS - 10,
            "kind": "marked",
            "model": "m",
            "version": "v2",
            "engine_id": "e-0",
            "host": "h-1",
            "message": "",
            "hosts": ["h-1", "h-2"],
        }
    ]


@pytest.mark.parametrize(
    ("before_ms", "told"),
    [(HOUR_MS, True), (HOUR_MS + 1, False), (0, True), (-AFTER_MS, True), (-AFTER_MS - 1, False)],
)
def test_only_what_came_in_the_hour_before_is_told(before_ms: int, told: bool) -> None:
    """Trouble may begin a little before the deployment shows."""
    assert bool(marks_of(marked(NOW_MS - before_ms)).of("m", None, NOW_MS)) is told


@pytest.mark.parametrize(
    ("model", "engine", "told"),
    [("m", None, True), ("n", "e", False), (None, "e", True), (None, "f", False)],
    ids=["the model", "another model", "an engine of which no model is known", "another engine"],
)
def test_it_concerns_the_model_or_else_the_engine(model: str | None, engine: str | None, told: bool) -> None:
    """Never another model, even on the same engine."""
    assert bool(marks_of(marked(NOW_MS, engine_id="e")).of(model, engine, NOW_MS)) is told


@pytest.mark.parametrize(("model", "engine"), [(None, None), ("m", None), (None, "e"), ("m", "e")])
def test_what_names_no_engine_is_not_of_what_has_none(model: str | None, engine: str | None) -> None:
    """A deployment of a model is no evidence of an alert about a host; one that names nothing may be of any."""
    of_model = marks_of(marked(NOW_MS, model="qwen", engine_id=None))
    of_nothing = marks_of(marked(NOW_MS, model=None, engine_id=None))

    assert of_model.of(model, engine, NOW_MS) == []
    assert len(of_nothing.of(model, engine, NOW_MS)) == 1


def test_the_newest_versions_are_told_first_and_few_of_them() -> None:
    """Kept by arrival, told by time."""
    rows = [marked(NOW_MS - n, model_version=f"v{n}") for n in range(SHOWN_MAX + 3)]

    every, kept = marks_of(*rows), marks_of(*rows, marks_max=2)

    assert [one["version"] for one in every.of("m", None, NOW_MS)] == [f"v{n}" for n in range(SHOWN_MAX)]
    assert [one["version"] for one in kept.of("m", None, NOW_MS)] == [f"v{SHOWN_MAX + 1}", f"v{SHOWN_MAX + 2}"]


def test_what_can_be_no_evidence_any_more_is_forgotten() -> None:
    """The rest survives a restart."""
    marks = marks_of(marked(NOW_MS - 2 * HOUR_MS - 1), marked(NOW_MS - HOUR_MS))
    marks.forget(NOW_MS)
    again = Marks(100, HOUR_MS)
    again.load(marks.dump())

    assert [one["at_ms"] for one in again.dump()] == [NOW_MS - HOUR_MS]
    assert again.of("m", None, NOW_MS) == marks.of("m", None, NOW_MS) != []
