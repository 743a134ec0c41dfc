"""Datagrams to columns of ``llm.requests``, many at once; no row is ever a dictionary of ours.

What a client says of a request in JSON stands where the event has a field for it; latencies, tokens and sketch follow
from its times (``producers.requests.times``), and what the client says itself goes before them. Where a request ran
(host, cluster, region) is the agent's to say, never the client's. Rows that do not fit their fields' kinds are put
apart as plain rows: the pipeline rejects them with their reason, where people look for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from producers.batch import slice_block
from producers.receiver.datagram import MERGED, Chunks, Datagrams, chunks_of, texts_of
from producers.requests.chunk import CONTENT, REASONING
from producers.requests.times import UNKNOWN, Figures, Times, figures, nullable
from producers.requests.tracker import MODEL_UNKNOWN
from schemas.block import Block, Column, Labels, Numbers, Texts
from schemas.events import LLM_REQUESTS
from schemas.fields import Field, Kind
from schemas.parsed import Problem
from schemas.placement import first_known
from schemas.values import column_of

Ints = npt.NDArray[np.int64]
Row = dict[str, Any]

TOKENS_HIGH = 100_000_000
_AGENTS_OWN = frozenset({"at_ms", "host", "cluster", "region", "origin", "itl_bins", "chunks"})
"""What a client may not say."""
_PLACES = ("cluster", "region", "host")


@dataclass(frozen=True, slots=True)
class Where:
    """What the agent knows of all requests of this host, and of an engine: its ``placement_group``."""

    host: str
    cluster: str | None = None
    region: str | None = None
    placement_of: Callable[[str], str | None] = lambda engine_id: None


@dataclass(frozen=True, slots=True)
class Folded:
    """``blocks`` by record key, in order of time within a key; ``unfit`` rows; how many had broken JSON."""

    blocks: Sequence[tuple[bytes, Block]]
    unfit: Sequence[Row]
    broken: int

    @property
    def events(self) -> int:
        """Requests in the blocks."""
        return sum(block.rows for _, block in self.blocks)


def fold(buffer: npt.NDArray[np.uint8], datagrams: Datagrams, where: Where) -> Folded:
    """The requests of these datagrams (farewells and duplicates left out by the caller)."""
    said, sound = _said(texts_of(buffer, datagrams))
    broken = len(datagrams) - len(said)
    datagrams = datagrams.where(sound) if broken else datagrams
    for row, head in zip(said, _identity(datagrams), strict=True):
        _complete(row, head, where)
    order = _by_key(said)
    if order is not None:
        said = [said[index] for index in order]
        datagrams = datagrams.where(np.array(order, np.int64))
    columns, problems = _columns(said, datagrams, chunks_of(buffer, datagrams), where)
    unfit: list[Row] = []
    if problems:
        bad = {problem.row for problem in problems}
        unfit = [_plain(said[row], int(datagrams.heads["at_ms"][row]), where) for row in sorted(bad)]
        said = [row for index, row in enumerate(said) if index not in bad]
        datagrams = datagrams.where(~np.isin(np.arange(len(datagrams)), list(bad)))
        columns, _ = _columns(said, datagrams, chunks_of(buffer, datagrams), where)
    block = Block(len(said), columns)
    return Folded(list(_cut(block, said, where, one_key=order is None)), unfit, broken)


def _said(texts: Sequence[memoryview]) -> tuple[list[Row], npt.NDArray[np.bool_]]:
    """What clients say, and which of the texts are JSON objects."""
    sound = np.ones(len(texts), np.bool_)
    said: list[Row] = []
    loads = orjson.loads
    for index, text in enumerate(texts):
        try:
            row = loads(text)
        except orjson.JSONDecodeError:
            row = None
        if type(row) is dict:
            said.append(row)
        else:
            sound[index] = False
    return said, sound


def _identity(datagrams: Datagrams) -> Iterator[tuple[int, int, int, int]]:
    heads = datagrams.heads
    return zip(*(heads[name].tolist() for name in ("pid", "start_ns", "seq", "times")), strict=True)


def _complete(row: Row, head: tuple[int, int, int, int], where: Where) -> None:
    """Fill in what must not be missing and what follows from the engine."""
    get = row.get
    if not get("request_id"):
        row["request_id"] = f"{head[0]:x}-{head[1]:x}-{head[2]:x}"
    if get("model") is None:
        row["model"] = MODEL_UNKNOWN
    told = get("output_tokens")
    if head[3] and told == 0:  # the engine tells of no output though something came
        told = row["output_tokens"] = None
    if told is not None or head[3]:
        row.setdefault("tokens_from", "counted" if told is None else "engine")
    engine_id = get("engine_id")
    if engine_id is not None and get("placement_group") is None and type(engine_id) is str:
        row["placement_group"] = where.placement_of(engine_id)


def _plain(row: Row, at_ms: int, where: Where) -> Row:
    """The row as one by itself, with what the agent says of it."""
    own = {"at_ms": at_ms, "host": where.host, "cluster": where.cluster, "region": where.region, "origin": "measured"}
    return {name: value for name, value in row.items() if name not in _AGENTS_OWN} | own


def _key(row: Row, where: Where) -> bytes:
    group = row.get("placement_group")
    return first_known((group.encode("utf-8", "replace") if type(group) is str else None, where.host.encode()))


def _by_key(said: Sequence[Row]) -> list[int] | None:
    """The order in which rows of one key stand together; None when all have the same."""
    groups = [group if type(group := row.get("placement_group")) is str else "" for row in said]
    if len(set(groups)) < 2:
        return None
    return sorted(range(len(said)), key=groups.__getitem__)


def _columns(
    said: Sequence[Row], datagrams: Datagrams, chunks: Chunks, where: Where
) -> tuple[dict[str, Column], list[Problem]]:
    measured = _measured(said, datagrams, chunks)
    columns: dict[str, Column] = {}
    problems: list[Problem] = []
    told = set().union(*said) - _AGENTS_OWN  # most fields are told by nobody
    for index, field in enumerate(LLM_REQUESTS.fields):
        name = field.name
        if name not in told:
            columns[name] = measured.get(name) or _constant(field, len(said), where)
            continue
        column, unfit = column_of(field, index, [row.get(name) for row in said])
        problems += unfit
        columns[name] = _either(column, measured[name]) if name in measured else column
    return columns, problems


def _constant(field: Field, rows: int, where: Where) -> Column:
    """What the agent says of every row, or null."""
    value = "measured" if field.name == "origin" else getattr(where, field.name) if field.name in _PLACES else None
    if field.kind is Kind.LABEL:
        words: list[bytes | None] = [None] if value is None else [None, value.encode()]
        return Labels(np.full(rows, len(words) - 1, np.uint8), words)
    if field.kind in (Kind.TEXT, Kind.OPTIONAL_TEXT):
        return Texts(b"", np.zeros(rows, np.int64), np.zeros(rows, np.bool_))
    return Numbers(np.zeros(rows, field.kind.numpy), np.zeros(rows, np.bool_))


def _either(said: Column, measured: Column) -> Column:
    """What is said, where it is; else what was measured."""
    assert isinstance(said, Numbers)
    assert isinstance(measured, Numbers)
    if said.known is None:
        return said
    if not said.known.any():
        return measured
    known = None if measured.known is None else said.known | measured.known
    return Numbers(np.where(said.known, said.values, measured.values), known)


def _measured(said: Sequence[Row], datagrams: Datagrams, chunks: Chunks) -> dict[str, Column]:
    heads = datagrams.heads
    untimed = heads["begin_ns"] == 0  # nothing but what the client says
    found = figures(
        Times(
            offsets=chunks.offsets,
            at_ns=chunks.at_ns,
            kinds=np.where(chunks.reasoning, REASONING, CONTENT).astype(np.uint8),
            received_ns=heads["begin_ns"].astype(np.int64),
            ended_ns=heads["end_ns"].astype(np.int64),
            tokens=chunks.tokens if chunks.tokens.any() else None,
            choices=chunks.choices if chunks.choices.any() else None,
            output_tokens=_told(said, "output_tokens"),
            reasoning_tokens=_told(said, "reasoning_tokens"),
        )
    )
    return {
        "at_ms": Numbers(heads["at_ms"].astype("<i8")),
        "e2e_us": nullable(np.where(untimed, UNKNOWN, found.e2e_us)),
        "itl_bins": found.itl,
        **_of_chunks(found, heads),
    }


def _of_chunks(found: Figures, heads: npt.NDArray[Any]) -> dict[str, Column]:
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


def _told(said: Sequence[Row], name: str) -> Ints | None:
    """A number of tokens as clients tell it, ``UNKNOWN`` where they do not."""
    values = [row.get(name) for row in said]
    if not any(values):
        return None
    return np.array([value if type(value) is int and 0 <= value <= TOKENS_HIGH else UNKNOWN for value in values])


def _cut(block: Block, said: Sequence[Row], where: Where, *, one_key: bool) -> Iterator[tuple[bytes, Block]]:
    """The block in pieces of one key each."""
    if one_key or block.rows < 2:
        yield from [(_key(said[0], where), block)] if block.rows else []
        return
    start = 0
    for key, rows in groupby(_key(row, where) for row in said):
        end = start + sum(1 for _ in rows)
        yield key, slice_block(block, start, end)
        start = end
