"""What a page shows, as the query part of its address: a link carries all of it to a colleague.

Bad values never fail a page: what can't be read is left out, and said.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from urllib.parse import urlencode

from fleetpulse.dashboard.time_range import DEFAULT, RangeSpec, fixed, iso, last_ms, moment_ms

VALUE_CHARS_MAX = 200
"""Longer than any name that the admission lets through; a longer value in a link is nobody's name."""
CHARS_MAX = {"given": 600}
"""Of options that hold several names: whatever their letters, an address with them is one that the guard takes."""

_USUAL = RangeSpec()


@dataclass(frozen=True, slots=True)
class UrlState:
    """``filters`` are dimensions and their wanted value; ``options`` the page's other settings. "" is not set."""

    range_spec: RangeSpec = _USUAL
    live: bool = False
    filters: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)

    def with_values(self, **values: str) -> UrlState:
        """With other filters and options, by name; ``KeyError`` for a name that the page doesn't know."""
        unknown = values.keys() - self.filters.keys() - self.options.keys()
        if unknown:
            raise KeyError(min(unknown))
        short = {name: value[: _chars_max(name)] for name, value in values.items()}
        return replace(
            self,
            filters={name: short.get(name, value) for name, value in self.filters.items()},
            options={name: short.get(name, value) for name, value in self.options.items()},
        )

    def query(self, defaults: Mapping[str, str] | None = None) -> str:
        """The query part: ``last=6h&model=x``. What stands at its default is left out."""
        usual = defaults or {}
        pairs = _range_pairs(self.range_spec) + ([("live", "1")] if self.live else [])
        pairs += [(name, value) for name, value in self.filters.items() if value]
        pairs += [(name, value) for name, value in self.options.items() if value != usual.get(name, "")]
        return urlencode(pairs)


def parse(
    query: Mapping[str, str], filters: tuple[str, ...] = (), options: Mapping[str, str] | None = None
) -> tuple[UrlState, tuple[str, ...]]:
    """The state that a link names and a sentence for each value that was left out. ``options`` are name and default."""
    usual = options or {}
    spec, notices = _range_of(query)
    kept = {name: query[name] for name in (*filters, *usual) if name in query}
    notices += [
        f"{name} was left out: longer than {_chars_max(name)} characters"
        for name, value in kept.items()
        if len(value) > _chars_max(name)
    ]
    good = {name: value for name, value in kept.items() if len(value) <= _chars_max(name)}
    state = UrlState(
        spec,
        query.get("live") == "1",
        {name: good.get(name, "") for name in filters},
        {name: good.get(name, default) for name, default in usual.items()},
    )
    return state, tuple(notices)


def _chars_max(name: str) -> int:
    return CHARS_MAX.get(name, VALUE_CHARS_MAX)


def _range_pairs(spec: RangeSpec) -> list[tuple[str, str]]:
    if spec.last is not None:
        return [("last", spec.last)] if spec.last != DEFAULT else []
    return [("from", iso(spec.from_ms)), ("to", iso(spec.to_ms))]


def _range_of(query: Mapping[str, str]) -> tuple[RangeSpec, list[str]]:
    try:
        if "from" in query or "to" in query:
            return fixed(moment_ms(query.get("from", "")), moment_ms(query.get("to", ""))), []
        last = query.get("last", DEFAULT)
        last_ms(last)
        return RangeSpec(last), []
    except ValueError as error:
        return RangeSpec(), [f"the range of this link can't be read ({str(error)[:120]}); this is the last {DEFAULT}"]
