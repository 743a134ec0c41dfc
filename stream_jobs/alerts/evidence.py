"""Why we believe it: what stands in an alert's ``evidence``, found in the last windows when it opens or changes.

=================  ======================================================================================
``requests``       ``slowest``, ``failed``, ``aborted``, ``client_fault``: ids of requests, with trace, tenant, ...
``gpu``            ``gpus`` (throttling, heat, clocks, events) and ``engines`` (KV cache, preemptions, queue)
``explained_by``   dimensions whose elements explain the change (``explain``), the likeliest first
``touched``        of a machine: requests, how they ended, tokens, tenants; ``dollars``: null, nobody knows prices yet
``expected``       value, baseline and range of the headline
=================  ======================================================================================

All are plain JSON values of at most ``BYTES_MAX`` together. What is not known is left out or null, never 0. Times
and counts are of the windows that are still remembered (``remembered.WINDOWS``), so of the last minute or so.

Rows are found by an index of their words, made once per window when it is first needed. Of the alerts of one
window ``LOOKUPS_MAX`` get all of it; the rest get the expected range, and more with a later update.

A change is explained between the newest windows and those before the alert began; for that the amounts of every fifth
minute are kept a while longer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import orjson

from schemas.codec import native
from schemas.codec.block import Block
from schemas.contract.alerts import Alert
from schemas.definitions import end_of
from schemas.errors import ContractError
from schemas.limits import MINUTE_MS, WINDOW_MS
from stream_jobs.alerts.evidence_rows import REQUESTS_MAX, TEXT_MAX, UNWELL, Words, examples, of_engine, of_gpu, word_at
from stream_jobs.alerts.explain import Amounts, amounts_of, explain
from stream_jobs.alerts.remembered import (
    DIMENSIONS,
    ENDS,
    FIELDS,
    WINDOWS,
    Lookup,
    ends_of,
    is_any,
    number_at,
    remembered,
    values_of,
)
from stream_jobs.insight.fleet_detector import JUDGING_INCOMPLETE
from stream_jobs.insight.frame import Finding, Window
from stream_jobs.rules.model import Function, Rule, Where

BYTES_MAX = 16 * 1024
LOOKUPS_MAX = 200
"""Per window, so that a fault of thousands of machines does not delay their alerts."""
EXAMPLES_MAX = 200
MACHINES_MAX = 8
TENANTS_MAX = 10
LONG_MS = 5 * MINUTE_MS
LONG_KEPT = 4
"""Of the windows that begin every ``LONG_MS`` so many are kept for comparison."""

_MACHINES = ("gpu_uuid", "engine_id", "host")
_SCOPE = (*_MACHINES, "model", "model_version")
_LATENCIES = ("ttft", "e2e", "tpot", "itl")
_RATIOS = {one: (f"{one}_sum", f"{one}_count") for one in _LATENCIES} | {end: (end, "events") for end in UNWELL}


class Evidence:
    """``rules`` name the measure an alert is about; of an unknown rule it is the time to first token."""

    def __init__(self, rules: Iterable[Rule] = ()) -> None:
        self._rules = {rule.name: rule for rule in rules}
        self._windows: dict[int, dict[str, Lookup]] = {}
        self._lookups = 0
        """Since the last window."""

    def remember(self, window: Window, findings: Sequence[Finding]) -> None:
        """Keep what evidence of a window may need, and drop what is too old. Windows come in order."""
        self._lookups = 0
        self._windows[window.window_ms] = {kind: Lookup(block) for kind, block in remembered(window).items()}
        newest = sorted(self._windows, reverse=True)
        for kind, count in WINDOWS.items():
            for window_ms in newest[count:]:
                if kind != "amounts" or window_ms % LONG_MS:
                    self._windows[window_ms].pop(kind, None)
        long = [window_ms for window_ms in newest if window_ms % LONG_MS == 0]
        for window_ms in long[LONG_KEPT:]:
            self._windows[window_ms].pop("amounts", None)
        most = max(WINDOWS.values())
        recent = {*newest[:most], *long[:LONG_KEPT]}
        self._windows = {one: found for one, found in self._windows.items() if one in recent}

    def of(self, alert: Alert) -> dict[str, Any]:
        """Evidence by kind; kinds of which nothing is known are left out."""
        if alert.rule == JUDGING_INCOMPLETE.name:
            return {}
        self._lookups += 1
        if self._lookups > LOOKUPS_MAX:
            expected = _expected(alert)
            return {"expected": expected} if expected else {}
        scope = self._scope(alert)
        found = {
            "expected": _expected(alert),
            "requests": self._requests(scope, alert),
            "gpu": self._machines(scope),
            "touched": self._touched(scope, alert),
            "explained_by": self._explained(scope, alert),
        }
        found = {kind: value for kind, value in found.items() if value}
        for kind in ("explained_by", "gpu", "touched", "requests"):
            if len(orjson.dumps(found)) <= BYTES_MAX:
                break
            found.pop(kind, None)
        return found

    # what an alert is about

    def _scope(self, alert: Alert) -> Words:
        """Words by label: of the headline, and of members what machines they name; engines of the GPUs named."""
        scope: Words = {name: {alert.labels[name]} for name in _SCOPE if name in alert.labels}
        for member in alert.members:
            for name in _MACHINES:
                if name in scope and name in member.labels:
                    scope[name].add(member.labels[name])
        if "gpu_uuid" in scope and "engine_id" not in scope:
            engines = self._engines_of(scope["gpu_uuid"])
            if engines:
                scope["engine_id"] = engines
        return scope

    def _engines_of(self, gpus: set[str]) -> set[str]:
        """The engines that these GPUs were seen to serve last."""
        for block in self._blocks("gpus"):
            engine, rows = block.block.labels("engine_id"), block.rows({"gpu_uuid": gpus})
            found = {word.decode() for code in engine.codes[rows].tolist() if (word := engine.words[code]) is not None}
            if found:
                return found
        return set()

    def _measure(self, rule: str) -> str:
        known = self._rules.get(rule)
        if known is None:
            return "ttft"
        measure = known.value
        match = measure.match if measure.topic == "llm.requests" and measure.function is Function.SHARE else None
        if match is not None and match.dimension in ("status", "error_kind"):
            return _end_among(match)
        if (latency := measure.field.partition("_")[0]) in _LATENCIES:
            return latency
        return "events" if measure.function in (Function.COUNT, Function.RATE) else "ttft"

    def _blocks(self, kind: str, since_ms: int = 0) -> list[Lookup]:
        """Blocks of a kind of the windows that begin then or later, the newest first."""
        windows = sorted(self._windows, reverse=True)
        return [self._windows[one][kind] for one in windows if one >= since_ms and kind in self._windows[one]]

    # kinds

    def _requests(self, scope: Words, alert: Alert) -> dict[str, Any]:
        """Of the windows since it began: earlier ones are no evidence. Of slow tokens those that took longest."""
        measure = self._measure(alert.rule)
        where, metric = _served(scope), "e2e" if measure in ("e2e", "tpot", "itl") else "ttft"
        blocks = self._blocks("exemplars", _window_of(alert.since_ms))
        slowest = [row for block in blocks for row in examples(block, where, metric)]
        slowest.sort(key=lambda row: (-row["value_us"], row["request_id"]))
        unwell = {end: [row for block in blocks for row in examples(block, where, end)] for end in UNWELL}
        found = {measure: unwell[measure]} if unwell.get(measure) else {"slowest": slowest, **unwell}
        return {name: found_rows[:REQUESTS_MAX] for name, found_rows in found.items() if found_rows}

    def _machines(self, scope: Words) -> dict[str, Any]:
        named = [name for name in _MACHINES if name in scope]
        if not named:
            return {}
        where = {named[0]: scope[named[0]]}  # the narrowest: not every row knows the others
        gpus = self._levels("gpus", "gpu_uuid", where, of_gpu)
        for uuid, events in self._events(where, set(gpus)).items():
            if uuid in gpus or len(gpus) < MACHINES_MAX:
                gpus.setdefault(uuid, {"gpu_uuid": uuid})["events"] = events
        engines = self._levels("engines", "engine_id", _served({name: scope[name] for name in named}), of_engine)
        found = {"gpus": list(gpus.values()), "engines": list(engines.values())}
        return {name: value for name, value in found.items() if value}

    def _events(self, where: Words, gpus: set[str]) -> dict[str, dict[str, int]]:
        """How many events of each kind, by GPU: of these GPUs and of whatever else stands there."""
        found: dict[str, Counter[str]] = {}
        for block in self._blocks("events"):
            for row in np.union1d(block.rows(where), block.rows({"gpu_uuid": gpus})).tolist():
                uuid, kind = word_at(block.block, "gpu_uuid", row), word_at(block.block, "kind", row)
                found.setdefault(uuid or "", Counter())[kind or ""] += number_at(block.block, "events", row) or 0
        return {uuid: dict(sorted(found[uuid].items())) for uuid in sorted(found)}

    def _levels(self, kind: str, name: str, where: Words, made: Any) -> dict[str, dict[str, Any]]:
        """By machine what ``made`` says of its rows, the first so many machines by name."""
        rows: dict[str, list[tuple[Block, int]]] = {}
        for block in self._blocks(kind):
            for row in block.rows(where).tolist():
                rows.setdefault(word_at(block.block, name, row) or "", []).append((block.block, row))
        return {one: {name: one, **made(rows[one])} for one in sorted(rows)[:MACHINES_MAX]}

    def _touched(self, scope: Words, alert: Alert) -> dict[str, Any]:
        """Of what is about machines: requests of the windows since it began, as far as they are remembered."""
        if not any(name in scope for name in _MACHINES):
            return {}
        name = "engine_id" if "engine_id" in scope else "host"
        where: Words = {name: scope[name]} if name in scope else {}
        since_ms = _window_of(alert.since_ms)
        sums: Counter[str] = Counter()
        for block in self._blocks("requests", since_ms) if where else ():
            rows = block.rows(where)
            for column in ("events", "input_tokens", "output_tokens"):
                sums[column] += int(values_of(block.block, column)[rows].sum())
            of_ends = np.bincount(ends_of(block.block, rows), values_of(block.block, "events")[rows], len(ENDS))
            sums.update({end: int(count) for end, count in zip(ENDS, of_ends, strict=True)})
        if not sums["events"]:
            return {}
        slow, bad = (self._tenants(where, since_ms, metrics) for metrics in (("ttft", "e2e"), ("failed",)))
        tenants = Counter(tenant for tenant in {**slow, **bad}.values() if tenant is not None)
        most = sorted(tenants.items(), key=lambda one: (-one[1], one[0]))[:TENANTS_MAX]
        return {
            "requests": sums["events"],
            **{end: sums[end] for end in ENDS},
            "slow_examples": len(slow),
            "input_tokens": sums["input_tokens"],
            "output_tokens": sums["output_tokens"],
            "tenants_of_examples": dict(most),
            "dollars": None,
        }

    def _tenants(self, where: Words, since_ms: int, metrics: tuple[str, ...]) -> dict[str, str | None]:
        """Tenant by request of the exemplars of these metrics, at most ``EXAMPLES_MAX`` of each and window."""
        return {
            row["request_id"]: row["tenant"]
            for block in self._blocks("exemplars", since_ms)
            for metric in metrics
            for row in examples(block, where, metric, EXAMPLES_MAX)
        }

    def _explained(self, scope: Words, alert: Alert) -> list[dict[str, Any]]:
        """Of what is about a model or all of them; a machine needs no explanation by dimensions of requests."""
        if any(name in scope for name in _MACHINES) or self._is_of_machines(alert.rule):
            return []
        kept = [one for one in sorted(self._windows) if "amounts" in self._windows[one]]
        before = [one for one in kept if one + WINDOW_MS <= alert.since_ms][-3:]
        now = [one for one in kept if one >= alert.since_ms][-3:]
        measure, models = self._measure(alert.rule), scope.get("model")
        found = explain(self._amounts(now, measure, models), self._amounts(before, measure, models))
        return [
            {
                "dimension": one.dimension,
                "elements": [
                    {"value": None if element is None else element[:TEXT_MAX], "share": round(power, 4)}
                    for element, power in zip(one.elements, one.powers, strict=True)
                ],
                "share": round(one.power, 4),
                "surprise": round(one.surprise, 6),
            }
            for one in found
        ]

    def _is_of_machines(self, rule: str) -> bool:
        known = self._rules.get(rule)
        return known is not None and known.value.topic != "llm.requests"

    def _amounts(self, windows: list[int], measure: str, models: set[str] | None) -> dict[str, Amounts]:
        """Mean amounts per window, by dimension: windows may be more or fewer on the other side."""
        if not windows:
            return {}
        first, second = _RATIOS.get(measure, ("events", ""))
        blocks = [self._windows[one]["amounts"].block for one in windows]
        block = native.concat(FIELDS["amounts"], blocks)
        keep = Lookup(block).rows({"model": models} if models is not None else {})
        found = {}
        for name in (name for names in DIMENSIONS.values() for name in names):
            rows = keep[is_any(block.labels("dimension"), {name})[keep]]
            if len(rows):
                element = block.labels("element")
                labels = type(element)(element.codes[rows], element.words)
                one, other = (
                    values_of(block, column)[rows] / len(windows) if column else None for column in (first, second)
                )
                assert one is not None
                found[name] = amounts_of(labels, one, other)
        return found

    # state

    def dump(self) -> list[bytes]:
        """A head and the blocks: equal states, equal bytes."""
        kinds = [(one, kind) for one in sorted(self._windows) for kind in FIELDS if kind in self._windows[one]]
        head = orjson.dumps({"windows": sorted(self._windows), "blocks": kinds, "lookups": self._lookups})
        return [head, *(self._windows[one][kind].packed(FIELDS[kind]) for one, kind in kinds)]

    def load(self, parts: Sequence[bytes]) -> None:
        """Restore a dump; none at all is the state of the beginning. Raises ``ContractError`` for what is none."""
        if not parts:
            self._windows, self._lookups = {}, 0
            return
        head = orjson.loads(parts[0])
        if len(head["blocks"]) != len(parts) - 1:
            raise ContractError(f"evidence has {len(parts) - 1} blocks instead of {len(head['blocks'])}")
        self._windows, self._lookups = {one: {} for one in head["windows"]}, head["lookups"]
        for (one, kind), value in zip(head["blocks"], parts[1:], strict=True):
            self._windows[one][kind] = Lookup.unpack(value, FIELDS[kind])


def _window_of(at_ms: int) -> int:
    return at_ms - at_ms % WINDOW_MS


def _expected(alert: Alert) -> dict[str, Any]:
    found = {name: getattr(alert, name) for name in ("value", "baseline", "low", "high")}
    known = {name: value for name, value in found.items() if value is not None}
    return {**known, "unit": alert.unit} if set(known) - {"value"} else {}


def _served(scope: Words) -> Words:
    """The scope as rows of requests and engines know it: by engine where there is one, not by who measured where."""
    kept = {name: words for name, words in scope.items() if name != "gpu_uuid"}
    if "engine_id" in kept:
        kept.pop("host", None)
    return kept if kept or "gpu_uuid" not in scope else {"engine_id": set()}


def _end_among(match: Where) -> str:
    """What a share of requests that ended so is about: failures, unless it names another end alone."""
    named = {end_of(*((word, None) if match.dimension == "status" else (None, word))) for word in match.one_of} - {"ok"}
    return named.pop() if len(named) == 1 and not match.negated else "failed"
