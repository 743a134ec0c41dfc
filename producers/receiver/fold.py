"""Fold: turns many datagrams at once into columns of ``llm.requests``, without a dictionary per row.

Fields that a client sent as JSON are taken as they are; latencies, tokens and sketch are computed from its chunk times
(``producers.requests.ttft_tpot_itl``) where the client did not send them. The agent alone sets where a request ran
(host, cluster, region). Rows that do not fit their fields' kinds go on as plain rows: the pipeline rejects them with a
reason into the dead-letter topic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import compress, groupby
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from producers.batch import slice_block
from producers.identity.joiner import from_elsewhere
from producers.receiver.client_fields import (
    Lists,
    Row,
    Where,
    completed,
    lists_of,
    parse_client_fields,
    picked,
    plain_row,
)
from producers.receiver.datagram import MERGED, Chunks, Datagrams, bytes_of, chunks_of, texts_of
from producers.requests.chunk import CONTENT, REASONING
from producers.requests.ttft_tpot_itl import UNKNOWN, Latencies, Times, latencies_of, nullable
from schemas.codec.block import Block, Column, Labels, Numbers, Texts
from schemas.codec.parsed import Problem
from schemas.codec.values import column_of
from schemas.events.event_types import LLM_REQUESTS
from schemas.fields import Field, Kind

__all__ = ["Folded", "Where", "fold"]

Ints = npt.NDArray[np.int64]

TOKENS_HIGH = 100_000_000
Judge = Callable[[list[Row], Callable[[int], bytes]], tuple[list[bool], int]]
"""Which reports are events now, and how many never will be, of these; the second gives the datagram of each."""
Elsewhere = Mapping[int, str | None]
"""By process in another network namespace than the agent's the engine to which loopback addresses lead there."""
NOBODY: Elsewhere = MappingProxyType({})
_PLACES = ("cluster", "region", "host")


@dataclass(frozen=True, slots=True)
class Folded:
    """``blocks`` by record key, in order of arrival within a key; ``unfit`` rows; how many had broken JSON, and how
    many are parts of other events."""

    blocks: Sequence[tuple[bytes, Block]]
    unfit: Sequence[Row]
    broken: int
    absorbed: int = 0

    @property
    def events(self) -> int:
        """Requests in the blocks."""
        return sum(block.rows for _, block in self.blocks)


def fold(
    buffer: npt.NDArray[np.uint8],
    datagrams: Datagrams,
    where: Where,
    judge: Judge | None = None,
    elsewhere: Elsewhere = NOBODY,
    *,
    hashed: bool = False,
) -> Folded:
    """The requests of these datagrams (farewells and duplicates left out by the caller) that are events now by
    ``judge``; None: all of them. ``hashed``: they were held; their ``user_hash`` and engine's address are ours."""
    sent, sound = parse_client_fields(texts_of(buffer, datagrams))
    broken = len(datagrams) - len(sent)
    if not sent:
        return Folded([], [], broken)
    for row in [] if hashed else sent:  # before any of them is kept or given to anyone
        where.names.hash_user(row)
    datagrams, absorbed = datagrams.where(sound) if broken else datagrams, 0
    if elsewhere:
        for row, pid in zip(sent, datagrams.senders.tolist(), strict=True):
            if pid in elsewhere:
                from_elsewhere(row, elsewhere[pid])
    if judge is not None:
        events, absorbed = judge(sent, partial(bytes_of, buffer, datagrams))
        if not all(events):
            sent, datagrams = list(compress(sent, events)), datagrams.where(np.array(events))
            if not sent:
                return Folded([], [], broken, absorbed)
    lists = completed(lists_of(sent), datagrams, where)
    keys = _keys(lists, where)
    if keys is not None:  # those of one key must stand together
        order = sorted(range(len(keys)), key=keys.__getitem__)
        keys, lists, datagrams = [keys[row] for row in order], picked(lists, order), datagrams.where(np.array(order))
    columns, problems = _columns(lists, datagrams, chunks_of(buffer, datagrams), where)
    unfit: list[Row] = []
    if problems:
        bad = sorted({problem.row for problem in problems})
        good = sorted(set(range(len(datagrams))).difference(bad))
        unfit = [plain_row(lists, row, int(datagrams.heads["at_ms"][row]), where) for row in bad]
        keys = None if keys is None else [keys[row] for row in good]
        lists, datagrams = picked(lists, good), datagrams.where(np.array(good, np.int64))
        columns, _ = _columns(lists, datagrams, chunks_of(buffer, datagrams), where)
    block = Block(len(datagrams), columns)
    return Folded(list(_cut(block, keys or [_key(lists, where)] * block.rows)), unfit, broken, absorbed)


def _key(lists: Lists, where: Where) -> bytes:
    """The key of all rows, when they have one."""
    group: Any = next(iter(lists.get("placement_group", ())), None)
    return (group if type(group) is str else where.host).encode("utf-8", "replace")


def _keys(lists: Lists, where: Where) -> list[bytes] | None:
    """The key of each row: its placement group, else the host. None when all have the same."""
    groups = [group if type(group) is str else where.host for group in lists.get("placement_group", ())]
    if not groups or groups.count(groups[0]) == len(groups):
        return None
    return [group.encode("utf-8", "replace") for group in groups]


def _columns(
    lists: Lists, datagrams: Datagrams, chunks: Chunks, where: Where
) -> tuple[dict[str, Column], list[Problem]]:
    measured = _measured(lists, datagrams, chunks)
    columns: dict[str, Column] = {}
    problems: list[Problem] = []
    for index, field in enumerate(LLM_REQUESTS.fields):
        name, values = field.name, lists.get(field.name)
        if values is None:  # most fields: no client sent them
            columns[name] = measured.get(name) or _constant(field, len(datagrams), where)
            continue
        column, unfit = _column(field, index, values)
        problems += unfit
        columns[name] = _either(column, measured[name]) if name in measured else column
    return columns, problems


def _column(field: Field, index: int, values: list[Any]) -> tuple[Column, list[Problem]]:
    first = values[0] if values else None
    if field.kind is Kind.LABEL and type(first) is str and first.isascii() and values.count(first) == len(values):
        return _one_word(first, len(values)), []
    return column_of(field, index, values)


def _one_word(word: str | None, rows: int) -> Labels:
    words: list[bytes | None] = [None] if word is None else [None, word.encode()]
    return Labels(np.full(rows, len(words) - 1, np.uint8), words)


def _constant(field: Field, rows: int, where: Where) -> Column:
    """The agent's value for every row, or null."""
    if field.kind is Kind.LABEL:
        known = getattr(where, field.name) if field.name in _PLACES else None
        return _one_word("measured" if field.name == "origin" else known, rows)
    if field.kind in (Kind.TEXT, Kind.OPTIONAL_TEXT):
        return Texts(b"", np.zeros(rows, np.int64), np.zeros(rows, np.bool_))
    return Numbers(np.zeros(rows, field.kind.numpy), np.zeros(rows, np.bool_))


def _either(sent: Column, measured: Column) -> Column:
    """The client's value where there is one, else the measured one."""
    assert isinstance(sent, Numbers)
    assert isinstance(measured, Numbers)
    if sent.known is None:
        return sent
    if not sent.known.any():
        return measured
    known = None if measured.known is None else sent.known | measured.known
    return Numbers(np.where(sent.known, sent.values, measured.values), known)


def _measured(lists: Lists, datagrams: Datagrams, chunks: Chunks) -> dict[str, Column]:
    heads = datagrams.heads
    untimed = heads["begin_ns"] == 0  # nothing is known but the client's fields
    found = latencies_of(
        Times(
            offsets=chunks.offsets,
            at_ns=chunks.at_ns,
            kinds=np.where(chunks.reasoning, np.uint8(REASONING), np.uint8(CONTENT)),
            received_ns=heads["begin_ns"].astype(np.int64),
            ended_ns=heads["end_ns"].astype(np.int64),
            tokens=chunks.tokens,
            choices=chunks.choices,
            output_tokens=_amounts(lists.get("output_tokens")),
            reasoning_tokens=_amounts(lists.get("reasoning_tokens")),
            counted=_counted(heads, chunks),
        )
    )
    return {
        "at_ms": Numbers(heads["at_ms"].astype("<i8")),
        "e2e_us": nullable(np.where(untimed, UNKNOWN, found.e2e_us)),
        "itl_bins": found.itl,
        **_of_chunks(found, heads),
    }


def _counted(heads: npt.NDArray[Any], chunks: Chunks) -> npt.NDArray[np.bool_] | None:
    """Whose marks are how many chunks were merged into each: their sum is how many there were. None where none are."""
    merged, tokens = heads["flags"] & MERGED != 0, chunks.tokens
    if tokens is None or not merged.any():
        return None
    upto = np.concatenate((np.zeros(1, np.int64), np.cumsum(np.maximum(tokens, 1), dtype=np.int64)))
    return merged & (np.diff(upto[chunks.offsets]) == heads["chunks"])


def _of_chunks(found: Latencies, heads: npt.NDArray[Any]) -> dict[str, Column]:
    merged = heads["flags"] & MERGED != 0
    chunks = np.where(merged, heads["chunks"].astype(np.int64), found.chunks)
    return {
        "ttft_us": nullable(found.ttft_us),
        "ttfo_us": nullable(found.ttfo_us),
        "tpot_us": nullable(found.tpot_us),
        "icl_max_us": nullable(found.icl_max_us),
        "chunks": nullable(chunks, TOKENS_HIGH),
        "output_tokens": nullable(found.counted_tokens, TOKENS_HIGH),
    }


def _amounts(values: list[Any] | None) -> Ints | None:
    """Token counts as clients report them, ``UNKNOWN`` where they do not; None where none does."""
    if values is None or not any(values):
        return None
    return np.array([value if type(value) is int and 0 <= value <= TOKENS_HIGH else UNKNOWN for value in values])


def _cut(block: Block, keys: Sequence[bytes]) -> Iterator[tuple[bytes, Block]]:
    """The block in pieces of one key each."""
    start = 0
    for key, rows in groupby(keys):
        end = start + sum(1 for _ in rows)
        yield key, block if end - start == block.rows else slice_block(block, start, end)
        start = end
