"""What the answer to a question comes to, in a sentence: who is behind the p99 spike of a model, above all. Pure.

A tenant is behind a rise when it explains at least half of it, and half as much again as its share of the requests: the
biggest tenant explains most of what hits everybody alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fleetpulse.queries.metric_words import label
from fleetpulse.queries.rise import SLOWED
from fleetpulse.report.cells import readable
from schemas.limits import DAY_MS

EXPLAINS_PCT_MIN = 50
OF_SHARE_MIN = 1.5
IDLE, IDLE_IN_ALL = "idle_gpus", "all in bills"
CHANGE_MIN = 0.1
"""From which part of what it was before a change is one: as in query ``who_slowed_model``."""
OTHERS_MAX = 3

Row = Mapping[str, Any]


def said_of(query: str, parameters: Mapping[str, str], rows: Sequence[Row]) -> str:
    """What an answer to this saved query comes to, in a sentence; empty for queries whose rows speak for themselves."""
    if query == SLOWED:
        measured = {name: parameters[name] for name in ("bins", "quantile")}
        return behind(rows, label(measured), float(measured["quantile"]))
    if query == IDLE:
        return _idle(rows)
    if "before_from_ms" in parameters and rows and _knows_nothing_before(rows):
        return "nothing is known of the range before: it has no data"
    return ""


def _idle(rows: Sequence[Row]) -> str:
    """What all idle GPUs in bills cost in 30 days, from how much time that follows, and what of it is not certain."""
    billed = next((row for row in rows if row["why"] == IDLE_IN_ALL and row["cost_of_30_days_nusd"] is not None), None)
    if billed is None:
        return ""
    cost, time = (readable(name, billed[name]) for name in ("cost_of_30_days_nusd", "billed_ms"))
    said = f"GPUs that compute nothing cost {cost} in 30 days at the rate of {time} with bills"
    if billed["billed_ms"] < 30 * DAY_MS:
        said += ", extrapolated"
    if billed["provisional_bills"]:
        said += f"; {billed['provisional_bills']:,} of the bills are provisional: still changing"
    if billed["estimated_gpu_ms"]:
        guessed = readable("estimated_gpu_ms", billed["estimated_gpu_ms"])
        said += f"; {guessed} of GPU time in them are estimated: billed for gaps between readings"
    return said


def _knows_nothing_before(rows: Sequence[Row]) -> bool:
    names = [name for name in rows[0] if name == "before" or name.endswith("_before")]
    return bool(names) and all(row[name] is None for row in rows for name in names)


def has_risen(before_ms: float, now_ms: float) -> bool:
    """Whether it is a change that a latency is more than it was."""
    return now_ms > before_ms and now_ms - before_ms >= CHANGE_MIN * before_ms


def others(named: Sequence[str]) -> str:
    """Models that rose beside the one that is judged, as the end of a sentence; empty for none."""
    said = (
        f"; others that rose, which may have another behind them: {', '.join(named[:OTHERS_MAX])} (ask with the name)"
    )
    return said if named else ""


def behind(rows: Sequence[Row], what: str, quantile: float) -> str:
    """Who explains the rise of ``what`` (``p99 of TTFT``) of the model that it rose most of, from rows of
    ``who_slowed_model``; or that nobody does, or that there is nothing to explain; and which other models rose. Empty
    for no rows, and for a quantile of 1, which no number of requests is enough for."""
    if not rows or quantile >= 1:
        return ""
    least = 1 / (1 - quantile)
    rose = [row["model"] for row in rows[1:] if row["model"] != rows[0]["model"] and _rose(row, least)]
    said = _behind_first(rows, what, least)
    return said + others(list(dict.fromkeys(rose))) if said else ""


def _rose(row: Row, least: float) -> bool:
    was, now = row["model_before_ms"], row["model_now_ms"]
    enough: bool = min(row["model_requests_before"], row["model_requests_now"]) >= least
    return enough and was is not None and now is not None and has_risen(was, now)


def _behind_first(rows: Sequence[Row], what: str, least: float) -> str:
    """Of the model of the first row alone."""
    model = rows[0]["model"]
    was, now = rows[0]["model_before_ms"], rows[0]["model_now_ms"]
    few = [when for when in ("before", "now") if rows[0][f"model_requests_{when}"] < least]
    if few or was is None or now is None:
        return f"too few requests {' and '.join(few) or 'before'} to say what changed: {what} needs {least:.0f} or more"
    of = f"{what} of {model}"
    change = f"from {was:,.0f} to {now:,.0f} ms"
    if not has_risen(was, now):
        most = "" if len({row["model"] for row in rows}) == 1 else ", that of no other model more"
        return f"{of} did not rise by a tenth or more, {change}{most}: nothing to explain"
    ours = [row for row in rows if row["model"] == model and row["explains_pct"] is not None]
    if not ours:
        return ""
    first = max(ours, key=lambda row: float(row["explains_pct"]))
    share_pct = 100 * first["requests_now"] / rows[0]["model_requests_now"]
    explains = f"{first['explains_pct']:.0f} % of the rise of {of} ({change}) with {share_pct:.0f} % of its requests"
    if first["explains_pct"] >= EXPLAINS_PCT_MIN and first["explains_pct"] >= OF_SHARE_MIN * share_pct:
        return f"{first['tenant']} explains {explains}"
    return f"no tenant stands out; most, {first['tenant']}, explains {explains}"
