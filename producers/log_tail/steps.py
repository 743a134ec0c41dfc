"""Maps log lines of training to rows of ``training.steps``: JSON lines by a table, texts of two trainers. Pure.

| format | a line | its values, by name for the table |
|---|---|---|
| ``training`` | a JSON object a step | its paths |
| ``hf_trainer`` | holds the dictionary that transformers' ``Trainer`` prints, ``{'loss': ...}`` | its keys |
| ``megatron`` | Megatron-LM's ``iteration N/M \\| ... \\|`` | ``iteration``, ``at`` and its keys, ``_`` for blanks |

Sources, read 2026-11: transformers ``trainer_callback.py`` (``PrinterCallback``, ``ProgressCallback``); Megatron-LM
``megatron/training/training.py`` (``training_log``). Values in quotes count. Other lines of such a log are passed over.
A text's time has no zone, or there is none: a row without ``at_ms`` has the time at which its line was read. Steps that
print no line have no row.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from producers.collector import Row
from producers.differences import bounds, within
from producers.log_tail.mapping import BrokenLineError, FieldMap, Line, document_of, mapped_by
from schemas.errors import ConfigError
from schemas.events.event_types import TRAINING_STEPS

Document = dict[str, Any]
_BOUNDS = bounds(TRAINING_STEPS)
_PAIR = re.compile(r"'([^']{1,128})': '?([^',}]{1,64})")
_ITERATION = re.compile(r"iteration +(\d{1,12})/ *(?:\d{1,12}|infinity) \|(.*)")
_AT = re.compile(r"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{1,6})?)\] *$")


def printed_by_trainer(text: bytes) -> Document | None:
    """The dictionary in a line, values as texts; None where none has a training loss."""
    at = text.find(b"'loss': ")
    begin, end = text.rfind(b"{", 0, at), text.find(b"}", at)
    if at < 0 or begin < 0 or end < 0:
        return None
    return dict(_PAIR.findall(text[begin:end].decode("utf-8", "replace")))


def printed_by_megatron(text: bytes) -> Document | None:
    """The values of an iteration, as texts; None for any other line."""
    line = text.decode("utf-8", "replace")
    found = _ITERATION.search(line)
    if found is None:
        return None
    pairs = (part.partition(":") for part in found[2].split("|"))
    document = {re.sub(r"\W+", "_", name.strip()).strip("_"): value.strip() for name, mark, value in pairs if mark}
    at = _AT.search(line[: found.start()])
    return document | {"iteration": found[1]} | ({"at": at[1]} if at else {})


class Format(NamedTuple):
    """How a line is read, and where fields are found unless the configuration says otherwise."""

    read: Callable[[bytes], Document | None]
    fields: Mapping[str, str]


FORMATS: Mapping[str, Format] = MappingProxyType(
    {
        "training": Format(document_of, {}),
        "hf_trainer": Format(printed_by_trainer, {"loss": "loss"}),
        "megatron": Format(
            printed_by_megatron,
            {
                "step": "iteration",
                "step_us": "elapsed_time_per_iteration_ms ms",
                "loss": "lm_loss",
                "samples": "global_batch_size",
            },
        ),
    }
)
AGENT_FIELDS = frozenset({"host", "cluster", "region", "origin", "loss_micro"})
"""Fields that only the agent sets; a loss is given as ``loss``."""


def step_map(kind: str, fields: Mapping[str, str], key: str = "fields") -> FieldMap:
    """Raises ``ConfigError`` (below ``key``) for what cannot be meant."""
    if "job" not in fields:
        raise ConfigError(key, sorted(fields), "must say where job is found, or =its name")
    names = {each.name: each for each in TRAINING_STEPS.fields if each.name not in AGENT_FIELDS}
    known = names | {"loss": TRAINING_STEPS.field("loss_micro")}
    return mapped_by(known, {**FORMATS[kind].fields, **fields}, key, "training.steps")


def steps_of(
    kind: str, mapped: FieldMap, lines: Iterable[Line], labels: Mapping[str, str | None], read_at_ms: int
) -> tuple[list[Row], Mapping[str, int]]:
    """A row for each line that is a step, and what was left out, by reason or field."""
    rows: list[Row] = []
    left_out = Counter[str]()
    for line in lines:
        try:
            document = FORMATS[kind].read(line.text)
        except BrokenLineError as error:
            left_out[error.reason] += 1
            continue
        if document is None:
            continue
        row = _row(mapped, document, labels, left_out)
        if row.get("job") is None:
            left_out["no job"] += 1
            continue
        rows.append({"at_ms": read_at_ms} | {name: value for name, value in row.items() if value is not None})
    return rows, left_out


def _row(mapped: FieldMap, document: Document, labels: Mapping[str, str | None], left_out: Counter[str]) -> Row:
    row: Row = {"origin": "measured"} | dict(labels)
    for field in mapped:
        try:
            value = field.read(field.get(document))
        except ValueError:
            left_out[field.name] += 1
            continue
        row["loss_micro" if field.name == "loss" else field.name] = value
    row, wrong = within(_BOUNDS, row)
    left_out.update(wrong)
    return row
