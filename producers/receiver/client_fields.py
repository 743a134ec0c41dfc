"""Fields of requests that clients sent as JSON, as one list per field, completed with what the agent knows. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from producers.identity.joiner import Joiner, Times
from producers.identity.network import OURS
from producers.receiver.datagram import Datagrams
from producers.requests.client_names import ClientNames
from producers.requests.counted_once import SDK
from producers.requests.tracker import MODEL_UNKNOWN
from schemas.codec.json_text import objects_of
from schemas.events.event_types import HOUR_US, LLM_REQUESTS

Lists = dict[str, list[Any]]
Row = dict[str, Any]

AGENT_FIELDS = frozenset({"at_ms", "host", "cluster", "region", "origin", "itl_bins", "chunks"})
"""Fields that only the agent sets; a client's value is ignored."""
_CLIENT_FIELDS = (frozenset(each.name for each in LLM_REQUESTS.fields) | {"address"}) - AGENT_FIELDS
"""``address``: of the engine, ``name:port``; it becomes what the agent knows of that engine."""


@dataclass(frozen=True, slots=True)
class Where:
    """What the agent knows of all requests of this host, who knows their engines, and what becomes of names in them."""

    host: str
    cluster: str | None = None
    region: str | None = None
    joiner: Joiner = field(default_factory=partial(Joiner, "receiver"))
    names: ClientNames = field(default_factory=ClientNames)
    engine_elsewhere: Callable[[int, int | None], str | None] = lambda _pid, _network: None
    """The engine to which loopback addresses lead in another network namespace, by a process there."""
    means_here: Callable[[int | None], bool] = lambda network: network == OURS
    """Whether loopback addresses that are said in a network namespace mean what they mean here."""


def parse_client_fields(texts: Sequence[memoryview]) -> tuple[list[Row], npt.NDArray[np.bool_]]:
    """The JSON objects among the texts (``objects_of``), and which of the texts are."""
    found = objects_of(texts)
    sent = [row for row in found if row is not None]
    return sent, np.array([row is not None for row in found], np.bool_)


def lists_of(sent: Sequence[Row]) -> Lists:
    """One list per field that clients may set and at least one did, None where a client did not. Requests of one
    program have the same names in the same order: then this is a transposition."""
    shapes = set(map(tuple, sent))
    if len(shapes) == 1:
        names = next(iter(shapes))
        columns = zip(*map(dict.values, sent), strict=True)
        return {name: list(column) for name, column in zip(names, columns, strict=True) if name in _CLIENT_FIELDS}
    present = _CLIENT_FIELDS.intersection(*[set().union(*shapes)])
    return {name: [row.get(name) for row in sent] for name in present}


def completed(lists: Lists, datagrams: Datagrams, where: Where) -> Lists:
    """The lists with required fields filled in, and what follows from the engine and from the chunks."""
    heads, rows = datagrams.heads, len(datagrams)
    nothing = [None] * rows
    ids = lists.get("request_id", nothing)
    if not all(ids):
        ids = [given or made for given, made in zip(ids, _made_ids(heads), strict=True)]
    models = lists.get("model", nothing)
    if None in models:
        models = [MODEL_UNKNOWN if model is None else model for model in models]
    reporters = [reporter or SDK for reporter in lists.get("reported_by", nothing)]
    out = lists | {"request_id": ids, "model": models, "reported_by": reporters} | _tokens(lists, heads["times"] > 0)
    out |= where.names.judge_lists(out)
    return out | where.joiner.join_lists(out, rows, lambda: _times_ms(out, heads))


def _times_ms(lists: Lists, heads: npt.NDArray[Any]) -> list[Times]:
    """When each request was received, where its times or its client say that, and when it ended."""
    timed_ms = (heads["end_ns"].astype(np.int64) - heads["begin_ns"].astype(np.int64)) // 1_000_000
    sent = lists.get("e2e_us", [None] * len(heads))
    sent_ms = [value // 1_000 if type(value) is int and 0 <= value <= HOUR_US else None for value in sent]
    each = zip((heads["begin_ns"] != 0).tolist(), timed_ms.tolist(), sent_ms, strict=True)
    took_ms = [timed if is_timed else told for is_timed, timed, told in each]
    ended_ms = heads["at_ms"].tolist()
    return [(None if took is None else ended - took, ended) for took, ended in zip(took_ms, ended_ms, strict=True)]


def _made_ids(heads: npt.NDArray[Any]) -> list[str]:
    """Unique in the deployment as long as processes with one pid start at different nanoseconds."""
    names = zip(heads["pid"].tolist(), heads["start_ns"].tolist(), heads["seq"].tolist(), strict=True)
    return [f"{pid:x}-{start_ns:x}-{seq:x}" for pid, start_ns, seq in names]


def _tokens(lists: Lists, came: npt.NDArray[np.bool_]) -> Lists:
    """Output tokens and who counted them. A count of 0 is ignored where chunks came."""
    rows = len(came)
    reported = lists.get("output_tokens", [None] * rows)
    sources = lists.get("tokens_from", [None] * rows)
    if None not in reported and 0 not in reported and None not in sources:
        return {}
    some = came.tolist()
    reported = [None if chunks and tokens == 0 else tokens for tokens, chunks in zip(reported, some, strict=True)]
    counted = [
        ("counted" if chunks else source) if tokens is None else source or "engine"
        for tokens, source, chunks in zip(reported, sources, some, strict=True)
    ]
    return {"output_tokens": reported, "tokens_from": counted}


def picked(lists: Lists, rows: Sequence[int]) -> Lists:
    """Those rows, in that order."""
    return {name: [values[row] for row in rows] for name, values in lists.items()}


def plain_row(lists: Lists, row: int, at_ms: int, where: Where) -> Row:
    """One row as a dictionary, with the agent's own fields."""
    sent = {name: values[row] for name, values in lists.items() if values[row] is not None}
    own = {"at_ms": at_ms, "host": where.host, "cluster": where.cluster, "region": where.region}
    return sent | own | {"origin": "measured"}
