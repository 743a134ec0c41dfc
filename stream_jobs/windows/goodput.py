"""Goodput of the events of a fold: who is judged, who is good, and the tokens of those, as columns that only add.

The verdicts are those of ``stream_jobs.costs.goodput``, by the classes of the rules that the job was started with:
after a change of objectives, requests that come later are judged by the new ones, and what is stored stays as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from schemas.codec.block import Block
from stream_jobs.costs.goodput import FAILED, GOOD, NOT_JUDGED, OBJECTIVES, Served, verdicts
from stream_jobs.costs.wide import UNKNOWN, Flags, Ints
from stream_jobs.rules.model import SloClass

TOKENS = ("input_tokens", "output_tokens")


def goodput_of(block: Block, values: Mapping[str, Ints], classes: Sequence[SloClass]) -> tuple[Ints, Ints, Ints]:
    """``judged_requests``, ``good_requests`` and ``good_tokens`` of every request; ``UNKNOWN`` where no class applies.
    ``values`` are its measures by name."""
    number = _class_of(block, classes)
    status = {word: _is(block, "status", word) for word in (b"ok", b"aborted")}
    client_fault = _is(block, "error_kind", b"client")
    measures = {name: values[name] for name in (*OBJECTIVES, *TOKENS)}
    verdict, _ = verdicts(Served(number, status[b"ok"], status[b"aborted"], client_fault, **measures), classes)
    good = verdict == GOOD
    tokens = sum(np.where(values[name] == UNKNOWN, 0, values[name]) for name in TOKENS)
    judged = verdict <= FAILED  # good, missed or failed
    first, second, third = (
        np.where(verdict == NOT_JUDGED, UNKNOWN, found) for found in (judged, good, np.where(good, tokens, 0))
    )
    return first, second, third


def _class_of(block: Block, classes: Sequence[SloClass]) -> Ints:
    labels, numbers = block.labels("slo_class"), {one.name.encode(): place for place, one in enumerate(classes)}
    return np.array([numbers.get(word or b"", -1) for word in labels.words], np.int64)[labels.codes]


def _is(block: Block, name: str, wanted: bytes) -> Flags:
    labels = block.labels(name)
    return np.array([word == wanted for word in labels.words], np.bool_)[labels.codes]
