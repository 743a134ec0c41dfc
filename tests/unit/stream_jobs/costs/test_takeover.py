"""What an owner of the cost job folds again after a takeover: what came since the last snapshot, not all that is held.

Covers stream_jobs.costs.packed.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import pytest

from runtime.counters import Counters
from schemas.contract.record import Record
from schemas.contract.topics import COSTS_TOPIC, WINDOW_PARTIALS
from stream_jobs.costs.packed import pack, unpack
from stream_jobs.costs.rows import Rows, Words
from stream_jobs.costs.step import CostStep, State
from stream_jobs.costs.wide import UNKNOWN, ints
from stream_jobs.runner import snapshot
from stream_jobs.runner.exactly_once import PartitionOwner
from stream_jobs.runner.job import Names, Source
from stream_jobs.runner.policy import CommitPolicy
from stream_jobs.step import Commit
from tests.unit.stream_jobs.costs.cases import BASE_MS, Log, a_gpu, a_line, a_share, a_step, emitted_rows, newest
from tests.unit.stream_jobs.runner.memory_broker import Scene

WINDOWS = 180
"""Half an hour: more than the 27 minutes in which a minute is held."""
POLICY = CommitPolicy(due_interval_ms=1, snapshot_interval_ms=15_000, snapshot_pieces_per_commit=1)


class Counted(CostStep):
    """Counts the records that it folds."""

    folded = 0

    def fold(self, state: State, records: Sequence[Record], changes: Any) -> None:
        self.folded += len(records)
        super().fold(state, records, changes)


class Sumless(Counted):
    """Dumps as 0.1.0 did."""

    def dump(self, state: State) -> list[bytes]:
        before, state.restored_to = state.restored_to, -1
        try:
            return super().dump(state)
        finally:
            state.restored_to = before

    def replay_from(self, state: State, position: int) -> int:
        first = state.buffer.first_offset
        return position if first is None else first


def of(kind: type[Counted]) -> Counted:
    made = a_step()
    made.__class__ = kind
    return made  # type: ignore[return-value]


@cache
def a_log() -> tuple[Record, ...]:
    """Two GPUs, two tenants whose requests reach back some minutes, GPUs shared now and then."""
    log = Log()
    for window in range(WINDOWS):
        log.gpu(window, [a_gpu("g1"), a_gpu("g2", ms=9_000 + window)], through=window + 1)
        log.usage(max(0, window - window % 40), [a_line("a"), a_line("b", status="error")], through=window + 1)
        if window % 7 == 0:
            log.shares(window, [a_share("g1")])
    return tuple(log.records)


@cache
def undisturbed(records: tuple[Record, ...]) -> dict[Any, Any]:
    step = a_step()
    state, changes = step.new(WINDOW_PARTIALS, 0), step.changes()
    step.fold(state, records, changes)
    return newest(emitted_rows(step.rows(state, changes, Commit(WINDOW_PARTIALS, 0, 0, 1, 0, BASE_MS, idle=False))))


def billed(scene: Scene) -> dict[Any, Any]:
    found: list[Any] = [r for (topic, _), log in scene.memory.logs.items() if topic == COSTS_TOPIC for r in log.records]
    return newest(emitted_rows(found))


async def taken_over(scene: Scene, step: CostStep) -> PartitionOwner:
    source, names = Source(WINDOW_PARTIALS, 0, gapless=False), Names("d", "costs")
    owner = PartitionOwner(step, source, scene.memory, names, POLICY, scene.clock, Counters())
    position = await owner.acquire()
    waiting = [record for record in scene.log.records if record.offset >= position]
    if waiting:
        await owner.feed(waiting)
    return owner


async def fed(scene: Scene, owner: PartitionOwner, records: Sequence[Record]) -> None:
    """Three records every ten seconds, committed as soon as something is due."""
    for record in records:
        scene.log.end = record.offset
        scene.log.add(record)
        await owner.feed([record])
        scene.clock.now_s += 4
        if owner.wants_commit():
            await owner.commit()


async def test_with_sums_in_the_snapshot_a_takeover_folds_seconds_again_and_without_them_all_that_is_held() -> None:
    """Half an hour of windows; the bills are those of an undisturbed fold either way, also of a dump of 0.1.0 that
    this release goes on from."""
    records = a_log()
    again: dict[str, int] = {}
    for name, kind in (("with sums", Counted), ("without", Sumless)):
        scene = Scene(of(kind), WINDOW_PARTIALS, gapless=False)
        await fed(scene, await taken_over(scene, scene.step), records[:-30])
        heir = of(Counted)
        owner = await taken_over(scene, heir)
        again[name] = heir.folded
        await fed(scene, owner, records[-30:])
        await scene.pass_by(owner, 60)

        assert billed(scene) == undisturbed(records)

    assert again["with sums"] < 20
    assert again["without"] > 300


@pytest.mark.parametrize("killed_after", range(150, 190, 8))
async def test_a_kill_while_a_snapshot_is_written_changes_no_bill(
    killed_after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its pieces go out one with each commit, so most kills meet it half-way: the last whole one counts."""
    monkeypatch.setattr(snapshot, "PIECE_BYTES_MAX", 700)
    records = a_log()
    scene = Scene(of(Counted), WINDOW_PARTIALS, gapless=False)
    await fed(scene, await taken_over(scene, scene.step), records[:killed_after])

    for start in range(killed_after, len(records), 70):
        await fed(scene, await taken_over(scene, of(Counted)), records[start : start + 70])
    await scene.pass_by(await taken_over(scene, of(Counted)), 60)

    assert billed(scene) == undisturbed(records)


def test_sums_are_the_same_bytes_whatever_codes_their_words_have() -> None:
    """Null is not the empty word, unknown is not 0, and rows keep the order in which they came."""
    words, others, groups, key = Words(), Words(), Words(), ("use", "owner")
    for word in (b"b", b"", b"a"):
        words.code(word)
    others.code(b"z")
    rows = Rows((ints([0, 0, 0]), ints([1, 0, 2]), words_of(words, [b"b", None, b""])), (ints([7, UNKNOWN, 0]),))

    data = pack(rows, key, groups, words)
    found = unpack(data, key, 1, groups, others)

    assert pack(found, key, groups, others) == data
    assert [others.list[code] for code in found.keys[2].tolist()] == [b"b", None, b""]
    assert found.keys[1].tolist() == [1, 0, 2]
    assert found.amounts[0].tolist() == [7, UNKNOWN, 0]


def words_of(words: Words, column: list[bytes | None]) -> Any:
    return ints([words.code(word) for word in column])
