"""Joiner: gives requests of one edge what is known of their engine, and counts those whose engine is not known."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from producers.identity.directory import JOINED, Directory
from producers.requests.client_names import shown
from producers.requests.tracker import MODEL_UNKNOWN
from runtime.addresses import says_this_machine
from runtime.counters import COUNTERS, Counters
from schemas.codec import values
from schemas.contract.engines import Engine

_log = logging.getLogger(__name__)

NAMES_LOGGED_MAX = 256
ENGINES_MAX = 4_096
"""Whose starts are remembered; beyond it the one not seen for longest is forgotten."""
ANSWERS_TO_ANY_NAME = frozenset({"llamacpp", "sglang", "trtllm"})
"""Kinds of engines that serve one model, and answer under whatever name a client gave it. TGI does to ``tgi`` alone:
any other name is an adapter's there. SGLang's adapters are ``base:adapter`` (sgl-project/sglang issues 7035, 31404)."""
Lists = dict[str, list[Any]]
Times = tuple[int | None, int]


class Starts:
    """Follows the first response of each engine since each of its starts, as one edge sees it."""

    def __init__(self) -> None:
        self._first: dict[bytes, tuple[int, int | None]] = {}  # the one not seen for longest comes first

    def of(self, engine: Engine, received_ms: int | None, ended_ms: int, *, served: bool) -> str | None:
        """``cold``: received before the first response since the engine's start had ended, as this edge or the engine's
        agent saw it; else ``warm``. None where the start is not known (an engine that was last seen not to answer may
        have restarted), or not when a request was received that ended after that response. ``served``: this request
        ended well."""
        if engine.started_ms is None or not engine.responding:
            return None
        started_ms, first_ms = self._first.pop(engine.key, (None, None))
        if started_ms != engine.started_ms:
            first_ms = None
        known_ms = [at_ms for at_ms in (first_ms, engine.warm_ms) if at_ms is not None]
        cold = not known_ms or (ended_ms if received_ms is None else received_ms) < min(known_ms)
        if first_ms is None and served:
            first_ms = ended_ms
        self._first[engine.key] = (engine.started_ms, first_ms)
        if len(self._first) > ENGINES_MAX:
            del self._first[next(iter(self._first))]
        return "cold" if cold else None if received_ms is None else "warm"


class Joiner:
    """``engines``: the directory as it is now. ``edge``: who joins, for the counter ``requests_without_engine``."""

    def __init__(self, edge: str, engines: Callable[[], Directory] = Directory, counters: Counters = COUNTERS) -> None:
        self._edge = edge
        self._engines = engines
        self._counters = counters
        self._starts = Starts()
        self._logged: set[str] = set()

    def join(self, row: dict[str, Any], address: str | None = None, *, serving: str | None = None) -> bool:
        """Complete a row of ``llm.requests`` in place, ``address`` being its engine's; whether the engine is known.

        ``serving``: the row is from an engine of this host that serves this model and reports no address.
        """
        directory = self._engines()
        if address is None and serving is not None and (only := directory.serving(serving)) is not None:
            address = only.engine_id
        found, engine = directory.joined(row, address)
        if engine is None:
            self._unknown(1, row.get("engine_id") or address)
            return False
        row |= found
        if (model := _misnamed(engine, row.get("model"))) is not None:
            row["model"], row["model_requested"] = model, shown(row["model"])
        if row.get("start") is None:
            ended_ms, e2e_us = _whole(row.get("at_ms")), row.get("e2e_us")
            received_ms = ended_ms - e2e_us // 1_000 if type(e2e_us) is int else None
            row["start"] = self._starts.of(engine, received_ms, ended_ms, served=row.get("status") == "ok")
        return True

    def knows(self, address: str | None) -> bool:
        """Whether an engine is known under this address: an agent reads its page."""
        return self._engines().joined({}, address)[1] is not None

    def join_lists(self, lists: Lists, rows: int, times_ms: Callable[[], Sequence[Times]]) -> Lists:
        """The same for many rows as one list a field: the lists to put in place of theirs. ``times_ms``: when each was
        received, where that is known, and ended. The list ``address`` is taken out of ``lists``."""
        nothing = [None] * rows
        addresses, ids = lists.pop("address", nothing), lists.get("engine_id", nothing)
        directory, known = self._engines(), dict[tuple[Any, Any], tuple[dict[str, Any], Engine | None]]()
        pairs = list(zip(ids, addresses, strict=True))
        for pair in set(map(_readable, pairs)):
            known[pair] = directory.joined({"engine_id": pair[0]}, pair[1])
        engines = [known[_readable(pair)] for pair in pairs]
        unknown = [pair for pair, (_, engine) in zip(pairs, engines, strict=True) if engine is None]
        if unknown:
            self._unknown(len(unknown), next((each for pair in unknown for each in pair if each), None))
        if len(unknown) == rows:
            return {}
        out: Lists = {}
        for name in JOINED:
            own = nothing if name == "engine_id" else lists.get(name, nothing)
            fallback = ids if name == "engine_id" else nothing
            out[name] = [
                value if value is not None else found.get(name, fallen)
                for value, (found, _), fallen in zip(own, engines, fallback, strict=True)
            ]
        of_rows = [engine for _, engine in engines]
        return out | _model_lists(lists, of_rows) | self._start_list(lists, of_rows, times_ms)

    def _start_list(self, lists: Lists, engines: list[Engine | None], times_ms: Callable[[], Sequence[Times]]) -> Lists:
        if not any(engine is not None and engine.started_ms is not None for engine in engines):
            return {}
        rows = len(engines)
        own, statuses = lists.get("start", [None] * rows), lists.get("status", [None] * rows)
        several = zip(own, engines, times_ms(), statuses, strict=True)
        return {
            "start": [
                start if start is not None or engine is None else self._starts.of(engine, *times, served=status == "ok")
                for start, engine, times, status in several
            ]
        }

    def _unknown(self, requests: int, name: Any) -> None:
        self._counters.add("requests_without_engine", requests, edge=self._edge)
        text = shown(name) if isinstance(name, str) else values.shown(name)  # any length: clients send what they like
        if name is not None and text not in self._logged and len(self._logged) < NAMES_LOGGED_MAX:
            self._logged.add(text)
            _log.info("requests of an engine that no agent knows; joined to no GPU", extra={"engine": text})


def _misnamed(engine: Engine | None, model: Any) -> str | None:
    """The model that an engine serves, where it answered to another name."""
    if engine is None or type(model) is not str or model in (engine.model, MODEL_UNKNOWN):
        return None
    kind = engine.engine_kind
    anything = kind in ANSWERS_TO_ANY_NAME and not (kind == "sglang" and ":" in model)
    return engine.model if anything or (kind == "tgi" and model == "tgi") else None


def _model_lists(lists: Lists, engines: Sequence[Engine | None]) -> Lists:
    """Models and requested names in place of those that an engine answered to, if there are any."""
    models = lists.get("model", [])
    served = [_misnamed(engine, model) for engine, model in zip(engines, models, strict=False)]
    if not any(served):
        return {}
    requested = lists.get("model_requested", [None] * len(models))
    return {
        "model": [name or model for name, model in zip(served, models, strict=True)],
        "model_requested": [
            shown(model) if name else each for name, model, each in zip(served, models, requested, strict=True)
        ],
    }


def _whole(value: Any) -> int:
    """The number that a client sent; 0 for what is none."""
    return value if type(value) is int else 0


def _readable(pair: tuple[Any, Any]) -> tuple[str | None, str | None]:
    """What a client sent, of whatever type, as ids and addresses can be."""
    engine_id, address = pair
    return engine_id if type(engine_id) is str else None, address if type(address) is str else None


def address_in(row: Mapping[str, Any]) -> str | None:
    """``address`` of a row that a client sent."""
    address = row.get("address")
    return address if type(address) is str else None


def meant(said: Any, engine_id: str | None) -> Any:
    """An engine's id or address that was said in another network namespace, as it is here: a loopback address there is
    of the engine ``engine_id``; None: of none that is known."""
    return engine_id if type(said) is str and says_this_machine(said) else said


def from_elsewhere(row: dict[str, Any], engine_id: str | None) -> None:
    """The same of a row that a client sent, in place."""
    row |= {name: meant(row[name], engine_id) for name in ("engine_id", "address") if name in row}
