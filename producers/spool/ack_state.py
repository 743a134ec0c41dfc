"""The books of a spool on disk: what is known of removed segments, the low-water mark, what was shed.

Totals are the saved books of removed segments plus the frames of the segments that are there, so that they are exact
after a kill at any moment: a segment is removed only after the books that know it are on disk, and one that those
books know is never counted again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from producers.spool.books import AMOUNT_MAX, BookKey, Books, Tally, copy_of, from_plain, ordinal, tally_of, to_plain
from producers.spool.segment import Segment
from producers.spool.slots import Slots
from schemas.errors import ContractError

_CHECKPOINT_BYTES = 256 * 1024
_SHED_BYTES = 4 * 1024
_SPARE_BYTES = 16 * 1024
"""Of a checkpoint: removed segments leave it to what this boot may shed, and the next ones."""
_FINISHED_BOOTS_MAX = 64


@dataclass(frozen=True, slots=True)
class Save:
    """Writes the low-water mark and the books of ``segments``, which may then be removed. ``run`` may block."""

    content: bytes
    slots: Slots
    first_segment: int
    removed: Books
    segments: tuple[Segment, ...]

    def run(self) -> None:
        self.slots.write(self.content)


@dataclass(frozen=True, slots=True)
class Declaration:
    """Writes how many events of each topic this boot has shed by now: safe against a kill. ``run`` may block."""

    boot: int
    totals: Mapping[str, int]
    slots: Slots

    def run(self) -> None:
        self.slots.write(json.dumps([self.boot, self.totals]).encode(), durable=False)


class AckState:
    """``books`` are the totals; ``low`` and ``first_segment`` are as last saved."""

    def __init__(self, folder: Path) -> None:
        with ExitStack() as opened:  # who retries must not run out of descriptors
            self._slots = opened.enter_context(closing(Slots.open(folder / "checkpoint", _CHECKPOINT_BYTES)))
            self._shed_slots = opened.enter_context(closing(Slots.open(folder / "shed", _SHED_BYTES)))
            self._read(folder)
            opened.pop_all()

    def _read(self, folder: Path) -> None:
        self.fresh = self._slots.read() is None
        with _readable(folder / "checkpoint"):
            saved = json.loads(self._slots.read() or b'{"low": [0, 0], "first_segment": 0, "books": []}')
            boot, seq, self.first_segment = map(ordinal, (*saved["low"], saved["first_segment"]))
            self._removed: Books = from_plain(saved["books"])
        self.low: tuple[int, int] = (boot, seq)
        with _readable(folder / "shed"):
            shed_boot, shed = json.loads(self._shed_slots.read() or b"[0, {}]")
            declared = from_plain([[shed_boot, topic, 0, 0, 0, events] for topic, events in shed.items()])
            self._shed_boot = ordinal(shed_boot)
        self.books: Books = copy_of(self._removed)
        self._shed: dict[str, int] = {}
        for (_, topic), tally in declared.items():  # a power cut may have left the save that knows more
            known = self.books.get((shed_boot, topic), Tally())
            self._shed[topic] = max(tally.shed_events, known.shed_events)
        self._note_shed(self.books)

    def begin_boot(self, boot: int, is_own: Callable[[int], bool]) -> int:
        """Under which boot this one declares what it sheds: itself, once what the last one shed is in the saved books.

        Where those are half full it is the last one: its amounts grow, so that a crash loop adds no rows. Rows that
        were published cannot be merged: who has them would count them again. Not where it is not ``is_own``: a copy
        of the spool, or its original, may count on under it.
        """
        books = copy_of(self._removed)
        self._note_shed(books)
        content = _content(self.low, self.first_segment, books)
        if self._shed and is_own(self._shed_boot) and len(content) > self._slots.room // 2:
            return self._shed_boot
        if self._shed:
            self._slots.write(content)
        self._removed, self._shed_boot, self._shed = books, boot, {}
        return boot

    def _note_shed(self, books: Books) -> None:
        for topic, events in self._shed.items():
            tally_of(books, self._shed_boot, topic).shed_events = events

    def shed(self, boot: int, topic: str, events: int) -> None:
        """Count events as shed, at once on disk (safe against a kill)."""
        declaration = self.declaration(boot, {topic: events})
        declaration.run()
        self.declared(declaration)

    def declaration(self, boot: int, shed: Mapping[str, int]) -> Declaration:
        """Adds these events to what this boot has shed."""
        known = {topic: self.books.get((boot, topic), Tally()).shed_events for topic in shed}
        totals = {topic: min(known[topic] + events, AMOUNT_MAX) for topic, events in shed.items()}
        return Declaration(boot, self._shed | totals, self._shed_slots)

    def declared(self, declaration: Declaration) -> None:
        """Take note that it has run."""
        self._shed_boot, self._shed = declaration.boot, dict(declaration.totals)
        self._note_shed(self.books)

    def begin_save(self, low: tuple[int, int], done: tuple[Segment, ...]) -> Save | None:
        """What must be written so that ``done`` may be removed, or as many of them, the oldest, as there is room for
        until the books are delivered; None when nothing has changed."""
        save = self._save(low, done)
        while done and len(save.content) > self._slots.room - _SPARE_BYTES:
            done = done[: len(done) // 2]
            save = self._save(low, done)
        return None if save.content == self._slots.read() else save

    def _save(self, low: tuple[int, int], done: tuple[Segment, ...]) -> Save:
        removed = copy_of(self._removed)
        for segment in done:
            for (boot, topic), tally in segment.books.items():
                known = tally_of(removed, boot, topic)
                known.add(tally)
                known.acknowledged_events += tally.events
        self._note_shed(removed)
        first = done[-1].number + 1 if done else self.first_segment
        return Save(_content(low, first, removed), self._slots, first, removed, done)

    def finish_save(self, save: Save) -> None:
        """Take note that ``save`` has run."""
        self._removed, self.first_segment = save.removed, save.first_segment

    def forget(self, delivered: Iterable[BookKey], live_boots: set[int]) -> None:
        """Forget all but the 64 newest of the finished boots whose books were delivered."""
        finished = sorted({boot for boot, _ in delivered if boot not in live_boots})
        gone = set(finished[:-_FINISHED_BOOTS_MAX])
        if gone:
            self.books = {key: tally for key, tally in self.books.items() if key[0] not in gone}
            self._removed = {key: tally for key, tally in self._removed.items() if key[0] not in gone}

    def close(self) -> None:
        self._slots.close()
        self._shed_slots.close()


def _content(low: tuple[int, int], first_segment: int, removed: Books) -> bytes:
    return json.dumps({"low": low, "first_segment": first_segment, "books": to_plain(removed)}).encode()


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """What is written there passed its checksum: what cannot be read nevertheless was not written by this program."""
    try:
        yield
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ContractError(f"{path} cannot be read ({error}): restore it, or move the whole folder away") from error
