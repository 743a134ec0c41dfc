"""JSON lines of third parties, judged as a whole: all become one block, or none and the reasons. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from producers.identity.joiner import address_in
from producers.receiver.client_fields import Where
from schemas.codec.block import Bins, Block, Column, Labels, Numbers, Texts
from schemas.codec.faults import fault_of, word_fault
from schemas.codec.json_text import loads
from schemas.codec.parsed import Problem
from schemas.codec.values import column_of, shown
from schemas.errors import RejectedError
from schemas.events.event_types import LLM_REQUESTS
from schemas.fields import Field
from schemas.limits import Limits
from schemas.sketch import BIN_MAX, ZERO_BIN

REFUSALS_MAX = 10
"""Reasons that an answer names; the rest is a number."""
_BIN_COUNT_MAX = 2**32


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a line cannot be taken. ``line`` counts from 1; ``reason`` is one of ``verdicts.REASONS``."""

    line: int
    reason: str
    detail: str


@dataclass(frozen=True, slots=True)
class Read:
    """``rows`` of the lines, or ``refusals`` in order of the lines; never both."""

    block: Block
    rows: Sequence[dict[str, Any]]
    refusals: Sequence[Refusal]


def read_lines(body: bytes, where: Where, now_ms: int, limits: Limits) -> Read:
    """The requests in these lines. ``at_ms`` is ``now_ms`` where a line has none; the agent alone sets where they ran.
    Empty lines count as lines and hold nothing."""
    numbered = [(number, line) for number, line in enumerate(body.split(b"\n"), 1) if line.strip()]
    if not numbered:
        return _refused([Refusal(1, "empty", "the body holds no line")])
    if len(numbered) > limits.batch_events_max:
        return _refused([Refusal(numbered[limits.batch_events_max][0], "too_many", _too_many(limits))])
    rows: list[dict[str, Any]] = []
    refusals: list[Refusal] = []
    for number, line in numbered:
        try:
            rows.append(_row(line, where, now_ms))
        except RejectedError as error:
            refusals.append(Refusal(number, error.reason, error.detail))
    if refusals:
        return _refused(refusals)
    block, problems = _block(rows, limits)
    if problems:
        return _refused([Refusal(numbered[problem.row][0], problem.reason, problem.detail) for problem in problems])
    return Read(block, rows, ())


def _refused(refusals: Sequence[Refusal]) -> Read:
    return Read(Block(0, {}), (), refusals)


def _too_many(limits: Limits) -> str:
    return f"more than {limits.batch_events_max} lines: send them in several requests"


def _row(line: bytes, where: Where, now_ms: int) -> dict[str, Any]:
    row = loads(line)
    if not isinstance(row, dict):
        raise RejectedError("wrong_type", f"{shown(row)}: must be a JSON object")
    row.setdefault("at_ms", now_ms)
    row |= {"host": where.host, "cluster": where.cluster, "region": where.region, "origin": "measured"}
    where.names.hash_user(row)
    where.names.judge(row)
    where.joiner.join(row, address_in(row))
    return row


def _block(rows: Sequence[dict[str, Any]], limits: Limits) -> tuple[Block, list[Problem]]:
    """The rows as a block, and at most one problem a row, in order."""
    columns: dict[str, Column] = {}
    first: dict[int, Problem] = {}
    for index, field in enumerate(LLM_REQUESTS.fields):
        column, problems = column_of(field, index, [row.get(field.name) for row in rows])
        columns[field.name] = column
        for problem in problems:
            first.setdefault(problem.row, problem)
    block = Block(len(rows), columns)
    for index, field in enumerate(LLM_REQUESTS.fields):
        for row in _at_fault(field, columns[field.name], limits):
            if row not in first:
                first[row] = Problem(row, index, *fault_of(field, block, row, limits))
    return block, [first[row] for row in sorted(first)]


def _at_fault(field: Field, column: Column, limits: Limits) -> Iterator[int]:
    """Rows whose value lies outside what the field allows."""
    if isinstance(column, Numbers):
        outside = _outside(field, column)
    elif isinstance(column, Labels):
        bad = [word_fault(field, word, limits.label_bytes_max) is not None for word in column.words]
        outside = np.array(bad, np.bool_)[column.codes]
    elif isinstance(column, Texts):
        sizes = np.diff(column.ends, prepend=0)
        outside = sizes > limits.text_bytes_max
        if field.required:
            outside |= sizes == 0
    else:
        assert isinstance(column, Bins), "no event holds lists"
        outside = _bad_bins(column)
    yield from np.flatnonzero(outside).tolist()


def _outside(field: Field, column: Numbers) -> npt.NDArray[np.bool_]:
    outside = np.zeros(len(column.values), np.bool_)
    if field.low is not None:
        outside |= column.values < field.low
    if field.high is not None:
        outside |= column.values > field.high
    return outside if column.known is None else outside & column.known


def _bad_bins(column: Bins) -> npt.NDArray[np.bool_]:
    bad = (column.keys < ZERO_BIN) | (column.keys > BIN_MAX)
    bad |= (column.counts == 0) | (column.counts > _BIN_COUNT_MAX)
    before = np.concatenate((np.zeros(1, np.int64), np.cumsum(bad)))
    sums = before[column.ends]
    return np.diff(sums, prepend=0) > 0
