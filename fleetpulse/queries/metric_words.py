"""Metrics and percentiles that a question in plain words names. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from schemas.ddl.range_views import CHANGED
from schemas.errors import ConfigError

_PERCENT = re.compile(r"\bp(50|90|95|99)\b|\b(median)\b", re.IGNORECASE)
_LATENCIES: Mapping[str, str] = {
    "tpot": r"tpot|time per (?:output )?token|inter.?token|itl|between tokens|generation speed",
    "e2e": r"e2e|end.to.end|response time|whole request|total (?:time|latency)",
    "queue": r"queue(?:ing|d|s)?(?: time)?|waiting time",
    "ttft": r"ttft|first.token|time to first",
}
_SUMS: Mapping[str, str] = {
    "cost_nusd": r"costs?|spen[dt]\w*|money|dollars|bill|expensive",
    "input_tokens": r"(?:input|prompt)s?(?: tokens?)?",
    "cached_tokens": r"cached(?: tokens?)?|cache hits?",
    "output_tokens": r"(?:output|generated|completion) tokens?|tokens? (?:out|generated)|tokens?",
    "failed": r"fail\w*|errors?",
    "requests": r"requests|traffic",
}
LABELS: Mapping[str, str] = {
    "ttft": "TTFT",
    "tpot": "TPOT",
    "e2e": "E2E latency",
    "queue": "time in the queue",
    "itl": "ITL",
    "input_tokens": "prompt tokens",
    "cached_tokens": "cached prompt tokens",
    "output_tokens": "generated tokens",
    "failed": "failed requests",
    "requests": "requests",
    "cost_nusd": "cost",
}


def measured(text: str, given: Mapping[str, str], query: str) -> dict[str, str]:
    """Parameters of a question (``given``), those that say what is measured as the words have it. Raises
    ``ConfigError`` for a percentile or latency of which no change is told."""
    latency, percent = _first(_LATENCIES, text), _PERCENT.search(text)
    found = dict(given)
    if "bins" in given:
        found |= {"bins": f"{latency}_us_bins"} if latency else {}
        found |= {"quantile": "0.5" if percent[2] else f"0.{percent[1]}"} if percent else {}
    elif query == CHANGED:
        named = _first(_SUMS, text)
        if latency == "queue" or (percent and percent[1] != "99"):
            what = LABELS["queue"] if latency == "queue" else percent[0] if percent else ""
            raise ConfigError("WORDS", text, f"asks for a change of {what}; that is told of p99 of TTFT, TPOT and E2E")
        if latency or percent:
            found["metric"] = f"{latency or 'ttft'}_p99_us"
        elif named and not given["metric"].endswith("_us"):
            found["metric"] = named
    return found


def beside(text: str, given: Mapping[str, str]) -> str:
    """What the text says beside a metric, for a question (``given``) that has a choice of it; else all of it."""
    said = [_PERCENT.pattern, *(rf"\b(?:{words})\b" for words in (*_LATENCIES.values(), *_SUMS.values()))]
    return re.sub("|".join(said), " ", text, flags=re.IGNORECASE) if label(given) else text


def label(given: Mapping[str, str]) -> str:
    """What a question measures, for people; empty where it has no choice of it."""
    if "bins" in given:
        latency = given["bins"].removesuffix("_bins").removesuffix("_us")
        return f"p{float(given['quantile']) * 100:g} of {LABELS.get(latency, latency)}"
    metric = given.get("metric", "")
    if metric.endswith("_p99_us"):
        return f"p99 of {LABELS[metric.removesuffix('_p99_us')]}"
    return LABELS.get(metric, "")


def _first(table: Mapping[str, str], text: str) -> str:
    return next((name for name, words in table.items() if re.search(rf"\b(?:{words})\b", text, re.IGNORECASE)), "")
