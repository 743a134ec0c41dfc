"""Values that parameters of saved queries take beside the range: first those that questions of people have. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from fleetpulse.queries.questions import numbered
from fleetpulse.queries.rise import RISE, SLOWED, WIDTHS_MS
from schemas.ddl.range_views import CHANGED, METRICS_OF_CHANGES

_LATENCY = {
    "bins": ("ttft_us_bins", "tpot_us_bins", "e2e_us_bins", "queue_us_bins"),
    "quantile": ("0.99", "0.95", "0.9", "0.5"),
}
_MORE: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    CHANGED: {"metric": METRICS_OF_CHANGES},
    SLOWED: _LATENCY,
    RISE: {**_LATENCY, "width_ms": tuple(map(str, WIDTHS_MS))},
}
"""What saved queries take beside what questions give them."""


def offered(query: str) -> dict[str, tuple[str, ...]]:
    """Values by parameter that this saved query takes: those that questions of people ask for first."""
    given = [one.given for one in numbered().values() if one.query == query]
    of_questions = {name: [values[name] for values in given if values.get(name)] for values in given for name in values}
    more = _MORE.get(query, {})
    found = {
        name: tuple(dict.fromkeys([*of_questions.get(name, ()), *more.get(name, ())]))
        for name in dict.fromkeys((*of_questions, *more))
    }
    return {name: values for name, values in found.items() if values}


def usual(query: str) -> dict[str, str]:
    """A value by parameter where nobody gives one: the first offered, nothing where questions ask for all."""
    given = {name: "" for one in numbered().values() if one.query == query for name in one.given}
    given |= {"model": ""} if query == RISE else {}
    return given | {name: values[0] for name, values in offered(query).items()}
