"""The state as bytes: what makes a restarted job judge as the one before.

A JSON head with the lengths of the sections, then these, the arrays as they are (``stream_jobs.parts``). Equal states
give equal bytes.

Words and series are named by dimension and grouping set: after a change of the grouping sets those that are the same
go on, the others start empty (their names are taken again, first come, first served).

Which tenants opened those of requests stands in the last sections. A snapshot of 0.1.0 has none: its series count for
the tenant whose name they have, else for none, as do its words.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from stream_jobs import parts as frame
from stream_jobs.windows.changes import State
from stream_jobs.windows.dedup import Dedup, SourceSeen, join, split
from stream_jobs.windows.series import TENANT, Codes, Series, SeriesTable, Words

VERSION = 1
_MAGIC = b"FPW1"


def dump(state: State) -> list[bytes]:
    """The state in parts."""
    head: dict[str, Any] = {
        "version": VERSION,
        "topic": state.topic,
        "partition": state.partition,
        "progress_ms": state.progress_ms,
        "sweep_at_ms": state.sweep_at_ms,
        "appended_ms_max": state.dedup.appended_ms_max,
        "forgotten": state.dedup.forgotten,
        "dimensions": list(state.plan.dimensions),
        "sets": [[t.grouping.name, list(t.grouping.dimensions), t.count] for t in state.series.tables],
    }
    sections = [*_dedup_sections(state.dedup), *_word_sections(state.series.words)]
    sections += [section for table in state.series.tables for section in _table_sections(table, state.series.words)]
    if state.series.tenant_at >= 0:
        head["openers"] = _opener_names(state.series, state.plan.dimensions)
        sections += _opener_sections(state.series)
    head["sections"] = [len(section) for section in sections]
    return frame.cut(_MAGIC, json.dumps(head, separators=(",", ":")).encode(), sections)


def load(state: State, parts: Sequence[bytes]) -> State:
    """The dumped state; ``state`` is a new one of the same topic and partition, and is filled.

    Raises ``ContractError`` when the parts are not those of one snapshot of it.
    """
    opening, data = frame.joined(_MAGIC, parts)
    head = json.loads(opening)
    frame.check_head(head, VERSION, topic=state.topic, partition=state.partition)
    sections = frame.pieces_of(data, head["sections"])
    state.progress_ms, state.sweep_at_ms = head["progress_ms"], head["sweep_at_ms"]
    state.dedup.appended_ms_max, state.dedup.forgotten = head["appended_ms_max"], head["forgotten"]
    _load_dedup(state.dedup, sections[:4])
    _load_series(state.series, state.plan.dimensions, head, sections[4:])
    return state


def _dedup_sections(dedup: Dedup) -> list[bytes]:
    ids, fixed, ranges = [], [], []
    for source, seen in dedup.entries():
        ids.append(bytes.fromhex(source))
        fixed.append((*split(seen.low), seen.appended_ms, len(seen.starts)))
        for start, end in zip(seen.starts, seen.ends, strict=True):
            boot, seq = split(start)
            ranges.append((boot, seq, end - start))
    return [
        len(ids).to_bytes(8, "little"),
        b"".join(ids),
        np.array(fixed, dtype="<i8").tobytes(),
        np.array(ranges, dtype="<i8").tobytes(),
    ]


def _load_dedup(dedup: Dedup, sections: Sequence[bytes]) -> None:
    count = int.from_bytes(sections[0], "little")
    fixed = np.frombuffer(sections[2], dtype="<i8").reshape(count, 4).tolist()
    ranges = np.frombuffer(sections[3], dtype="<i8").reshape(-1, 3).tolist()
    first = 0
    for number, (boot, seq, appended_ms, count) in enumerate(fixed):
        own = ranges[first : first + count]
        first += count
        starts = [join(b, s) for b, s, _ in own]
        ends = [start + length for start, (_, _, length) in zip(starts, own, strict=True)]
        source = sections[1][16 * number : 16 * number + 16].hex()
        dedup.sources[source] = SourceSeen(join(boot, seq), starts, ends, appended_ms)


def _word_sections(words: Sequence[Words]) -> list[bytes]:
    sections = []
    for dimension in words:
        texts = [word or b"" for word in dimension.words[2:]]
        sections += [np.array([len(text) for text in texts], dtype="<u4").tobytes(), b"".join(texts)]
    return sections


def _table_sections(table: SeriesTable, words: Sequence[Words]) -> list[bytes]:
    lines = table.lines[: table.count]
    sections = [table.last_windows[: table.count].astype("<i8").tobytes()]
    for column, position in enumerate(table.positions.tolist()):
        sections.append(lines[:, column].astype(_width(len(words[position].words))).tobytes())
    return sections


def _opener_names(series: Series, dimensions: Sequence[str]) -> list[list[str]]:
    """Of the sections of ``_opener_sections``: dimensions, then grouping sets."""
    return [
        [name for name, words in zip(dimensions, series.words, strict=True) if words.bounded],
        [table.grouping.name for table in series.tables if table.tenant_at >= 0],
    ]


def _opener_sections(series: Series) -> list[bytes]:
    words = [np.array(words.openers, "<i4") for words in series.words if words.bounded]
    return [one.astype("<i4").tobytes() for one in (*words, *_openers(series))]


def _openers(series: Series) -> Iterator[Codes]:
    return (table.openers[: table.count] for table in series.tables if table.tenant_at >= 0)


def _width(codes: int) -> str:
    return "<u1" if codes <= 0x100 else "<u2" if codes <= 0x10000 else "<u4"


def _load_series(series: Series, dimensions: Sequence[str], head: dict[str, Any], sections: Sequence[bytes]) -> None:
    old_names: list[str] = head["dimensions"]
    old_words = [_words(sections[2 * n], sections[2 * n + 1]) for n in range(len(old_names))]
    rest = sections[2 * len(old_names) :]
    openers = _read_openers(head, sections)
    for name, found in zip(old_names, old_words, strict=True):
        if name in dimensions:
            fresh = series.words[dimensions.index(name)]
            own = openers.get(("dimension", name), np.zeros(len(found), np.int32)).tolist()
            series.words[dimensions.index(name)] = Words(fresh.limit, found, fresh.bounded, own)
    tables = {(t.grouping.name, t.grouping.dimensions): t for t in series.tables}
    for set_name, names, count in head["sets"]:
        table = tables.get((set_name, tuple(names)))
        if table is not None:
            widths = [_width(len(old_words[old_names.index(name)]) + 2) for name in names]
            columns = [np.frombuffer(raw, dtype=w) for raw, w in zip(rest[1 : 1 + len(names)], widths, strict=True)]
            last_windows = np.frombuffer(rest[0], dtype="<i8")
            table.last_windows[0] = last_windows[0]
            lines = np.stack(columns, axis=1).astype(np.int32)
            own = openers.get(("set", set_name))
            if own is None and TENANT in names:
                own = lines[:, names.index(TENANT)]
            table.add_lines(lines[1:], last_windows[1:], None if own is None else own[1:])
            assert table.count == count
        rest = rest[1 + len(names) :]


def _read_openers(head: dict[str, Any], sections: Sequence[bytes]) -> dict[tuple[str, str], Codes]:
    """By kind and name; empty where the snapshot has none."""
    kinds = zip(("dimension", "set"), head.get("openers", ([], [])), strict=True)
    names = [(kind, name) for kind, some in kinds for name in some]
    own = sections[len(sections) - len(names) :]
    return {name: np.frombuffer(raw, "<i4").astype(np.int32) for name, raw in zip(names, own, strict=True)}


def _words(lengths: bytes, texts: bytes) -> list[bytes]:
    ends = np.cumsum(np.frombuffer(lengths, dtype="<u4"), dtype=np.int64).tolist()
    return [texts[start:end] for start, end in zip([0, *ends], ends, strict=False)]
