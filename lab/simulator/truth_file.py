"""The truth on disk: written ahead of sending, frame by frame, so that a killed generator can still be judged.

A frame is 8 bytes length, 4 bytes CRC-32, then a JSON line and the arrays it lists. It is handed to the operating
system before its events are sent, so a kill -9 loses none; a torn last frame is dropped by the reader. What a killed
life had written and not yet spooled is cut off by ``Life.keep`` with the record counts of the producer's own books. A
step is written only when all records of the one before are spooled: a kill may take records of the last step alone, and
a life that has ended by itself lacks none (``Life.cut``).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import numpy.typing as npt
import orjson

from lab.simulator.faults import Fault
from lab.simulator.fleet import RECORD_ROWS_MAX, Step
from lab.simulator.truth import Part, Truth, first_records, part_of
from schemas.codec.block import Bins


class TruthWriter:
    """Appends to a file; one life per writer. ``about`` says whose life it is (source, boot, seed)."""

    def __init__(self, path: Path, about: Mapping[str, Any], faults: tuple[Fault, ...] = ()) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        _drop_torn_tail(path)
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._large: dict[int, tuple[int, list[bytes | None]]] = {}
        self._tables: dict[tuple[bytes | None, ...], int] = {}
        self._step = 0
        self._frame({"life": dict(about), "faults": [asdict(fault) for fault in faults]}, {})

    def append(self, step: Step, rows_max: int = RECORD_ROWS_MAX) -> None:
        """Write down a step that is about to be sent in records of ``rows_max``."""
        self._step += 1
        for wide in step.wides:
            self._append_part(part_of(wide, rows_max))

    def close(self, *, ended: bool = False) -> None:
        """``ended``: all that was written down is spooled."""
        if ended:
            self._frame({"ended": True}, {})
        os.close(self._file)

    def _append_part(self, part: Part) -> None:
        arrays: dict[str, npt.NDArray[Any]] = {"record": part.record.astype(np.int32)}
        words: dict[str, int] = {}
        for name, (values, known) in part.numbers.items():
            arrays[f"n:{name}"] = values
            if known is not None:
                arrays[f"k:{name}"] = known
        for name, (codes, table) in part.labels.items():
            arrays[f"l:{name}"] = codes
            words[name] = self._table(table)
        for name, bins in part.bins.items():
            arrays[f"e:{name}"], arrays[f"b:{name}"] = bins.ends, bins.keys
            arrays[f"c:{name}"] = bins.counts.astype(np.uint32)
        self._frame({"topic": part.topic, "step": self._step, "words": words}, arrays)

    def _table(self, words: list[bytes | None]) -> int:
        """Number of a dictionary in the file, written at its first use."""
        if id(words) in self._large:
            return self._large[id(words)][0]
        key = tuple(words)
        number = self._tables.get(key)
        if number is None:
            number = self._tables[key] = len(self._tables)
            texts = [None if word is None else word.decode() for word in words]
            self._frame({"dictionary": number, "texts": texts}, {})
        if len(words) > _SMALL:
            self._large[id(words)] = (number, words)  # kept alive, so that the id stays its own
        return number

    def _frame(self, head: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> None:
        head["arrays"] = [[name, array.dtype.str, len(array)] for name, array in arrays.items()]
        line = orjson.dumps(head) + b"\n"
        body = b"".join([line, *(np.ascontiguousarray(array).tobytes() for array in arrays.values())])
        _write_all(self._file, len(body).to_bytes(8, "little") + crc32(body).to_bytes(4, "little") + body)


_SMALL = 64
_HEAD = 12


@dataclass(frozen=True, slots=True)
class Cut:
    """Records that are written down and not in the books. ``beyond``: those that no kill explains."""

    records: int = 0
    beyond: int = 0


@dataclass(slots=True)
class Life:
    """What one process wrote down. ``steps`` numbers the step of each part; ``ended``: it was not killed."""

    about: dict[str, Any]
    faults: tuple[Fault, ...]
    parts: list[Part] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    ended: bool = False

    def keep(self, records: Mapping[str, int]) -> list[Part]:
        """The parts of the first ``records[topic]`` records of each topic (none of a topic that is not named)."""
        return [first_records(part, have) for part, have in self._spooled(records)]

    def cut(self, records: Mapping[str, int]) -> Cut:
        """What ``keep`` leaves out."""
        missing = [max(0, _records(part) - have) for part, have in self._spooled(records)]
        before_last = [0 if step == self.steps[-1] else lost for step, lost in zip(self.steps, missing, strict=True)]
        return Cut(sum(missing), sum(missing if self.ended else before_last))

    def _spooled(self, records: Mapping[str, int]) -> Iterator[tuple[Part, int]]:
        """Parts, and how many records of the topic were spooled from the first of each on."""
        left = dict(records)
        for part in self.parts:
            have = left.get(part.topic, 0)
            left[part.topic] = max(0, have - _records(part))
            yield part, have


def _records(part: Part) -> int:
    return int(part.record[-1]) + 1 if len(part.record) else 0


def read_lives(path: Path) -> list[Life]:
    """All lives in a file, in order; a torn last frame is left out."""
    lives: list[Life] = []
    tables: dict[int, list[bytes | None]] = {}
    for body in _frames(path):
        line, _, data = body.partition(b"\n")
        head = orjson.loads(line)
        if "life" in head:
            lives.append(Life(head["life"], tuple(Fault(**fault) for fault in head["faults"])))
            tables = {}
        elif "dictionary" in head:
            tables[head["dictionary"]] = [None if text is None else text.encode() for text in head["texts"]]
        elif "ended" in head:
            lives[-1].ended = True
        else:
            lives[-1].parts.append(_part(head, data, tables))
            lives[-1].steps.append(head["step"])
    return lives


Books = Mapping[tuple[str, int], Mapping[str, int]]
"""By source and boot, then topic: records in the producer's books."""


def truth_of(lives: Sequence[Life], records: Books | None = None) -> Truth:
    """The truth of all lives. With ``records`` each is cut to what it really spooled; without, all that was written
    down counts."""
    return Truth(part for life in lives for part in (life.parts if records is None else life.keep(_of(life, records))))


def cut_of(lives: Sequence[Life], records: Books) -> Cut:
    """What ``truth_of`` leaves out of all lives."""
    cuts = [life.cut(_of(life, records)) for life in lives]
    return Cut(sum(one.records for one in cuts), sum(one.beyond for one in cuts))


def _of(life: Life, records: Books) -> Mapping[str, int]:
    return records.get((life.about.get("source", ""), life.about.get("boot", 0)), {})


def _part(head: dict[str, Any], data: bytes, tables: dict[int, list[bytes | None]]) -> Part:
    arrays: dict[str, npt.NDArray[Any]] = {}
    at = 0
    for name, dtype, length in head["arrays"]:
        arrays[name] = np.frombuffer(data, dtype, length, at)
        at += arrays[name].nbytes
    named = {prefix: [name[2:] for name in arrays if name.startswith(prefix)] for prefix in ("n:", "l:", "e:")}
    return Part(
        head["topic"],
        arrays["record"].astype(np.int64),
        {name: (arrays[f"n:{name}"], arrays.get(f"k:{name}")) for name in named["n:"]},
        {name: (arrays[f"l:{name}"], tables[head["words"][name]]) for name in named["l:"]},
        {
            name: Bins(arrays[f"e:{name}"], arrays[f"b:{name}"], arrays[f"c:{name}"].astype(np.uint64))
            for name in named["e:"]
        },
    )


def _frames(path: Path) -> Iterator[bytes]:
    """Bodies of the whole frames from the start of the file."""
    with path.open("rb") as file:
        while len(head := file.read(_HEAD)) == _HEAD:
            length = int.from_bytes(head[:8], "little")
            body = file.read(length)
            if len(body) < length or crc32(body) != int.from_bytes(head[8:], "little"):
                return
            yield body


def _drop_torn_tail(path: Path) -> None:
    """Cut off what a kill left behind the last whole frame, so that the next frame is found."""
    if path.exists():
        whole = sum(_HEAD + len(body) for body in _frames(path))
        if whole < path.stat().st_size:
            os.truncate(path, whole)


def _write_all(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]
