"""Rows by key as columns of whole numbers: words are codes, sums are added up by key, null is ``UNKNOWN``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice

import numpy as np

from schemas.codec.block import Labels
from stream_jobs.costs import row_kernels
from stream_jobs.costs.wide import Flags, Ints
from stream_jobs.finals.merge import Groups, groups_by

Word = bytes | None


class Words:
    """Words by code; 0 is null. Codes are given in the order in which words come and mean nothing outside."""

    __slots__ = ("_codes", "list")

    def __init__(self) -> None:
        self.list: list[Word] = [None]
        self._codes: dict[Word, int] = {None: 0}

    def __len__(self) -> int:
        return len(self.list)

    def code(self, word: Word) -> int:
        """The word's code."""
        return self._coded([word])[0]

    def codes(self, column: Labels) -> Ints:
        """Codes of a column of labels."""
        there = np.zeros(len(column.words), dtype=np.bool_)
        there[column.codes] = True
        used = np.flatnonzero(there)
        found = np.zeros(len(column.words), dtype=np.int64)
        found[used] = self._coded([column.words[number] for number in used.tolist()])
        return found[column.codes]

    def _coded(self, words: list[Word]) -> list[int]:
        codes = self._codes
        found = [codes.setdefault(word, len(codes)) for word in words]
        self.list.extend(islice(codes, len(self.list), None))
        return found


def moved(words: Words, to: Words, used: list[Ints]) -> Ints:
    """New codes by old ones (-1: not used): those in ``used`` are added to ``to``."""
    codes = np.full(len(words), -1, dtype=np.int64)
    codes[0] = 0
    for code in np.unique(np.concatenate(used)).tolist() if used else ():
        codes[code] = to.code(words.list[code])
    return codes


@dataclass(frozen=True, slots=True)
class Rows:
    """``keys`` (codes, at least 0) and ``amounts`` are columns of one length."""

    keys: tuple[Ints, ...]
    amounts: tuple[Ints, ...]

    def __len__(self) -> int:
        return len(self.keys[0])

    def of(self, which: Ints | Flags | slice) -> Rows:
        """These rows, in that order."""
        return Rows(tuple(key[which] for key in self.keys), tuple(amount[which] for amount in self.amounts))


def none(keys: int, amounts: int) -> Rows:
    """No rows."""
    empty = np.empty(0, dtype=np.int64)
    return Rows((empty,) * keys, (empty,) * amounts)


def joined(parts: Sequence[Rows]) -> Rows:
    """All rows of some parts of equal columns, in order."""
    if len(parts) == 1:
        return parts[0]
    keys = tuple(np.concatenate(columns) for columns in zip(*(part.keys for part in parts), strict=True))
    return Rows(keys, tuple(np.concatenate(columns) for columns in zip(*(part.amounts for part in parts), strict=True)))


def grouped(keys: Sequence[Ints]) -> Groups:
    """Rows of equal keys together, in the order of the keys; of no rows no groups."""
    rows = len(keys[0])
    if not rows:
        return Groups(np.empty(0, dtype=np.int64), np.zeros(1, dtype=np.int64))
    return groups_by([(key, int(key.max()) + 1) for key in keys], rows)


def sums(groups: Groups, column: Ints) -> Ints:
    """Sums by group, held at ``SUM_MAX``; null adds nothing, and is the sum where nothing was known."""
    out = np.empty(len(groups), dtype=np.int64)
    row_kernels.add(groups.order, groups.firsts, column, out)
    return out


def heads(groups: Groups) -> Ints:
    """The first row of each group."""
    return groups.order[groups.firsts[:-1]]


def indexes(groups: Groups) -> Ints:
    """The group of each row."""
    found = np.empty(len(groups.order), dtype=np.int64)
    found[groups.order] = np.repeat(np.arange(len(groups), dtype=np.int64), np.diff(groups.firsts))
    return found


def added_up(rows: Rows) -> Rows:
    """One row for each key, in the order in which keys first came."""
    groups = grouped(rows.keys)
    first = heads(groups)
    order = np.argsort(first)
    keys = tuple(key[first[order]] for key in rows.keys)
    return Rows(keys, tuple(sums(groups, amount)[order] for amount in rows.amounts))


@dataclass(slots=True)
class Pile:
    """Rows of one table and minute: those that were added up, and those that came since."""

    base: Rows
    parts: list[Rows] = field(default_factory=list)
    waiting: int = 0

    def add(self, rows: Rows) -> None:
        """Keep these rows behind all others."""
        self.parts.append(rows)
        self.waiting += len(rows)

    def all(self) -> Rows:
        """All rows added up, in the order in which their keys came; they are the base from now on."""
        if self.parts:
            self.base, self.parts, self.waiting = added_up(joined([self.base, *self.parts])), [], 0
        return self.base

    def of(self, picked: Flags) -> Rows:
        """The same of the rows whose first key is picked; what is kept stays as it is."""
        base = self.base.of(picked[self.base.keys[0]])
        if not self.parts:
            return base
        self.parts = [joined(self.parts)]
        part = self.parts[0].of(picked[self.parts[0].keys[0]])
        return added_up(joined([base, part])) if len(part) else base
