"""Snapshots of 0.1.0 are read: a job goes on where a worker of that release left off, and can be handed back to it."""

from __future__ import annotations

import json
from operator import attrgetter
from typing import Any

import orjson
import pytest

from schemas.codec import native
from schemas.codec.build import rows_of
from schemas.contract.record import Output
from schemas.contract.topics import WINDOW_PARTIALS
from schemas.errors import NewerReleaseError
from schemas.limits import DEFAULT_LIMITS, WINDOW_MS
from stream_jobs import parts as parts_of
from stream_jobs.alerts import step as alerts_step
from stream_jobs.alerts import topology as topology_of
from stream_jobs.alerts.policy import AlertPolicy
from stream_jobs.insight import fleet_detector
from stream_jobs.insight.project import View
from stream_jobs.parts import decompress
from tests.unit.releases.frozen import JOBS, Job, between, read_as_0_1_0

EACH = pytest.mark.parametrize("job", JOBS, ids=str)
ALERTS = JOBS[-1]
REQUESTS = Job("windows", "llm.requests")
COSTS = Job("costs", "window.partials")
PROGRESS = {"part", "number", "previous", "watermark"}
"""Headers of partials that hang on what else is written."""
READ_AGAIN_WHERE_FIRING = {
    f"firing.{name}" for name in ("count", "heard_ms", "calm", "value", "baseline", "low", "high")
}
WAITED_FOR_BY_NOBODY = {"host.devices", "engine.events"}
OTHERWISE = {
    *("itl_given_load", "ttft_given_load", "gpu_starved", "tensor_cores_idle"),
    *("gpu_throttled", "gpu_power_brake", "gpu_straggler_throttled"),
}
"""Shipped rules of 0.1.0 that have another name by now (the first two), or another condition: they learn again."""


def taken_over(job: Job) -> tuple[Any, Any]:
    """Today's step and its state after a takeover from 0.1.0, folded up to the committed offset."""
    step, taken = job.step(), job.snapshot()
    state = step.load(job.topic, 0, taken.parts)
    if behind := between(job.topic, taken.snapshot.position, taken.committed):
        step.fold(state, behind, step.changes())
    return step, state


def assert_same_outputs(job: Job, step: Any, state: Any, after_ms: int) -> None:
    """Today's step writes with the commits of 0.1.0 after a moment what that wrote, in all columns that it had. Of the
    windows job's partials: the rows, and after each commit the last window that its watermark has passed."""
    compared, passed, passed_by_0_1_0 = 0, 0, 0
    for commit, written in job.commits():
        if commit.now_ms > after_ms:
            changes = step.changes()
            if records := between(job.topic, commit.offset_from, commit.offset_to):
                step.fold(state, records, changes)
            found = step.rows(state, changes, commit)
            assert [*map(compared_as, filter(says_more, found))] == [*map(compared_as, filter(says_more, written))], (
                commit
            )
            passed, passed_by_0_1_0 = max([passed, *windows_of(found)]), max([passed_by_0_1_0, *windows_of(written)])
            if job.topic not in WAITED_FOR_BY_NOBODY:
                assert passed == passed_by_0_1_0, commit
            compared += len(written)
    assert compared > 0, "nothing was compared"


def says_more(output: Output) -> bool:
    """Whether a record says more than how far its source has come, which 0.1.0 repeats with every commit."""
    return output.topic != WINDOW_PARTIALS or bool(output.value)


def compared_as(output: Output) -> Any:
    """A record as 0.1.0 reads it, but for where it stands among the others of its commit."""
    return read_as_0_1_0(output._replace(headers=tuple(one for one in output.headers if one[0] not in PROGRESS)))


def windows_of(outputs: list[Output]) -> list[int]:
    """How many windows have passed by each watermark."""
    found = [dict(output.headers).get("watermark", b"0") for output in outputs]
    return [int(watermark) // WINDOW_MS for watermark in found]


@EACH
def test_a_job_goes_on_from_a_snapshot_of_0_1_0(job: Job) -> None:
    """Whatever comes after it gives the records that 0.1.0 wrote itself."""
    step, state = taken_over(job)

    assert_same_outputs(job, step, state, job.snapshot().now_ms)


@EACH
def test_a_job_that_reads_everything_again_writes_what_0_1_0_wrote(job: Job) -> None:
    """From the first record, as where outputs and snapshots were deleted."""
    step = job.step()

    assert_same_outputs(job, step, step.new(job.topic, 0), 0)


@EACH
def test_a_snapshot_is_the_one_that_0_1_0_takes(job: Job) -> None:
    """So a worker of 0.1.0 takes over from one of today. That of alerts differs in the shipped rules that one release
    alone has, or has otherwise, and what only they read; that of requests in the set ``service``, which has one more
    dimension: each release begins with no series of the other's; and by who opened them, which 0.1.0 does not read.
    That of costs has the sums of its minutes as well, a
    version that 0.1.0 does not take: its workers are upgraded together. So is the alert job, whose snapshots name what
    waits by offsets, and keep the times of the topology apart from it."""
    step, state = taken_over(job)
    ours, theirs = step.dump(state), job.snapshot().parts

    if job == ALERTS:
        (head, mine), (head_of_theirs, others) = judged(ours), judged(theirs)
        assert graph_of(head[1].pop("topology")) == graph_of_0_1_0(head_of_theirs[1].pop("topology"))
        assert without_waiting(head) == without_waiting(head_of_theirs)
        assert {name for name, kind in others.keys() - mine.keys() if kind != "view"} == OTHERWISE
        both = others.keys() & mine.keys()
        views = {fleet_detector._view_text(one): one for span in state.detector.spans.values() for one in span.views}
        for key in both:
            assert said(*mine[key], views) == said(*others[key], views), key
        assert {kind == "view" for _, kind in both} == {True, False}
    elif job == REQUESTS:
        assert without_service(ours) == without_service(theirs)
    elif job == COSTS:
        more = {"version": 2, "wait_ms": DEFAULT_LIMITS.final_wait_ms}
        assert without_sums(ours) == orjson.loads(decompress(b"".join(theirs))) | more
    else:
        assert ours == theirs


def without_waiting(heads: Any) -> Any:
    """Of the head of a snapshot of alerts all but how it names what waits."""
    (head, sections, judge) = heads
    gather = {name: value for name, value in head["gather"].items() if name not in ("waiting", "packed")}
    return {**head, "gather": gather, "position": None}, sections, judge


def said(head: dict[str, Any], data: bytes, views: dict[str, View]) -> Any:
    """A part of the judge: of a view its rows, whatever the order of its words (``series_whole`` is new); of a rule its
    arrays, of what was seen last of a series only what is read again: that of those that fire."""
    if "view" not in head:
        arrays = fleet_detector._arrays(head, memoryview(data))
        fires = arrays["firing.firing"]
        kept = {name: array[fires] if name in READ_AGAIN_WHERE_FIRING else array for name, array in arrays.items()}
        return head, {name: (array.dtype.str, array.shape, array.tobytes()) for name, array in kept.items()}
    fields = views[head["view"]].fields
    return {**head, "series_whole": None}, rows_of(fields, native.decode(data, fields))


def graph_of(parts: list[bytes]) -> dict[str, Any]:
    """The topology of a snapshot of alerts: entries by kind in the order of learning, and what was reported since."""
    topology = topology_of.Topology(AlertPolicy())
    topology.load(parts)
    fields = {kind: attrgetter(*of.__slots__) for kind, of in topology_of._KINDS.items()}
    entries = {kind: [[name, *fields[kind](one)] for name, one in getattr(topology, kind).items()] for kind in fields}
    return {**entries, "swept_ms": topology.swept_ms, "since": orjson.loads(parts[-1])}


def graph_of_0_1_0(parts: list[bytes]) -> dict[str, Any]:
    """The same as 0.1.0 wrote it: all of it as one document, but for what was reported since."""
    (graph, since) = parts
    return {**orjson.loads(decompress(graph)), "since": orjson.loads(since)}


def without_sums(parts: list[bytes]) -> dict[str, Any]:
    """Of a snapshot of costs all but the sums of its minutes."""
    opening, _ = parts_of.joined(b"FPC2", parts)
    found: dict[str, Any] = orjson.loads(decompress(opening))
    assert found.pop("sums")
    return found


def without_service(parts: list[bytes]) -> tuple[Any, list[bytes]]:
    """Of a snapshot of requests all but the series of the set ``service``, and who opened series and words."""
    opening, data = parts_of.joined(b"FPW1", parts)
    head = json.loads(opening)
    sections = parts_of.pieces_of(data, head.pop("sections"))
    openers = sum(map(len, head.pop("openers", ())))
    sections = sections[: len(sections) - openers]
    before = 4 + 2 * len(head["dimensions"])
    (name, dimensions, _), *others = head.pop("sets")
    assert name == "service"
    return (head, others), [*sections[:before], *sections[before + 1 + len(dimensions) :]]


def judged(parts: list[bytes]) -> tuple[Any, dict[tuple[str, str], Any]]:
    """Of a snapshot of alerts all but the judge's section; its head; and its parts by rule and hash, or by view."""
    head, sections = alerts_step.of_parts(parts)
    (first, _), *opened = [fleet_detector._unpacked(part) for part in sections.pop("judge")]
    assert first.pop("parts") == len(opened)
    keys = [(one["rule"], one["hash"]) if "rule" in one else (one["view"], "view") for one, _ in opened]
    return (head, sections, first), {key: (one, bytes(data)) for key, (one, data) in zip(keys, opened, strict=True)}


@EACH
def test_a_snapshot_of_a_newer_version_is_refused_with_what_to_do(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may mean what this release does not know."""
    step = job.step()
    check = parts_of.check_head
    monkeypatch.setattr(
        parts_of, "check_head", lambda head, version, **place: check({**head, "version": version + 1}, version, **place)
    )

    with pytest.raises(NewerReleaseError, match=r"has version \d, this release reads \d; run the release"):
        step.load(job.topic, 0, job.snapshot().parts)
