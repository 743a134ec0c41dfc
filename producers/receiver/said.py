"""What clients say of their requests in JSON, as one list per field; completed by what the agent knows. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from producers.receiver.datagram import Datagrams
from producers.requests.tracker import MODEL_UNKNOWN
from schemas.events import LLM_REQUESTS

Lists = dict[str, list[Any]]
Row = dict[str, Any]

AGENTS_OWN = frozenset({"at_ms", "host", "cluster", "region", "origin", "itl_bins", "chunks"})
"""What a client may not say."""
_MAY_SAY = frozenset(field.name for field in LLM_REQUESTS.fields) - AGENTS_OWN


@dataclass(frozen=True, slots=True)
class Where:
    """What the agent knows of all requests of this host, and of an engine: its ``placement_group``."""

    host: str
    cluster: str | None = None
    region: str | None = None
    placement_of: Callable[[str], str | None] = lambda engine_id: None


def read_said(texts: Sequence[memoryview]) -> tuple[list[Row], npt.NDArray[np.bool_]]:
    """The JSON objects among the texts, and which of the texts are."""
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


def lists_of(said: Sequence[Row]) -> Lists:
    """One list per field that a client may say and any does, None where it does not. Requests of one program have
    the same names in the same order: then this is a transposition."""
    shapes = set(map(tuple, said))
    if len(shapes) == 1:
        names = next(iter(shapes))
        columns = zip(*map(dict.values, said), strict=True)
        return {name: list(column) for name, column in zip(names, columns, strict=True) if name in _MAY_SAY}
    told = _MAY_SAY.intersection(*[set().union(*shapes)])
    return {name: [row.get(name) for row in said] for name in told}


def completed(lists: Lists, datagrams: Datagrams, where: Where) -> Lists:
    """With what must not be missing, and what follows from the engine and from the chunks that came."""
    heads, rows = datagrams.heads, len(datagrams)
    nothing = [None] * rows
    ids = lists.get("request_id", nothing)
    if not all(ids):
        ids = [told or made for told, made in zip(ids, _made_ids(heads), strict=True)]
    models = lists.get("model", nothing)
    if None in models:
        models = [MODEL_UNKNOWN if model is None else model for model in models]
    out = lists | {"request_id": ids, "model": models} | _tokens(lists, heads["times"] > 0)
    if "engine_id" in lists:
        groups = zip(lists.get("placement_group", nothing), lists["engine_id"], strict=True)
        known: dict[Any, str | None] = {}
        out["placement_group"] = [_group(group, engine_id, known, where) for group, engine_id in groups]
    return out


def _made_ids(heads: npt.NDArray[Any]) -> list[str]:
    """Unique in the deployment as far as processes begin at different nanoseconds."""
    names = zip(heads["pid"].tolist(), heads["start_ns"].tolist(), heads["seq"].tolist(), strict=True)
    return [f"{pid:x}-{start_ns:x}-{seq:x}" for pid, start_ns, seq in names]


def _tokens(lists: Lists, came: npt.NDArray[np.bool_]) -> Lists:
    """Output tokens and who counted them. None told though chunks came is not believed."""
    rows = len(came)
    told = lists.get("output_tokens", [None] * rows)
    sources = lists.get("tokens_from", [None] * rows)
    if None not in told and 0 not in told and None not in sources:
        return {}
    some = came.tolist()
    told = [None if chunks and tokens == 0 else tokens for tokens, chunks in zip(told, some, strict=True)]
    counted = [
        ("counted" if chunks else source) if tokens is None else source or "engine"
        for tokens, source, chunks in zip(told, sources, some, strict=True)
    ]
    return {"output_tokens": told, "tokens_from": counted}


def _group(group: Any, engine_id: Any, known: dict[Any, str | None], where: Where) -> Any:
    if group is not None or type(engine_id) is not str:
        return group
    if engine_id not in known:
        known[engine_id] = where.placement_of(engine_id)
    return known[engine_id]


def picked(lists: Lists, rows: Sequence[int]) -> Lists:
    """Those rows, in that order."""
    return {name: [values[row] for row in rows] for name, values in lists.items()}


def plain_row(lists: Lists, row: int, at_ms: int, where: Where) -> Row:
    """One row by itself, with what the agent says of it."""
    said = {name: values[row] for name, values in lists.items() if values[row] is not None}
    own = {"at_ms": at_ms, "host": where.host, "cluster": where.cluster, "region": where.region}
    return said | own | {"origin": "measured"}
