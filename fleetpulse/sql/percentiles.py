"""SQL for percentiles of one measure by one dimension: names are checked against the field tables, never quoted in."""

from __future__ import annotations

from schemas.errors import ConfigError
from schemas.events.event_types import LLM_REQUESTS
from schemas.events.grouping import sets_of
from schemas.fields import Role

QUANTILES = (0.5, 0.9, 0.95, 0.99, 0.999)
_VIEWS = {"service": "request_windows", "engine": "engine_request_windows"}


def measures() -> tuple[str, ...]:
    """Measures with a sketch."""
    return tuple(field.name for field in LLM_REQUESTS.of(Role.SKETCH))


def percentiles_sql(measure: str, by: str) -> str:
    """A query with parameters from_ms and to_ms. Raises ``ConfigError`` for an unknown measure or dimension."""
    if measure not in measures():
        raise ConfigError("measure", measure, f"must be one of {', '.join(measures())}")
    views = [_VIEWS[grouping.name] for grouping in sets_of("llm.requests") if by in grouping.dimensions]
    if not views:
        known = sorted({name for grouping in sets_of("llm.requests") for name in grouping.dimensions})
        raise ConfigError("--by", by, f"must be one of {', '.join(known)}")
    columns = ",\n    ".join(
        f"round(fp_quantile({q}, sumMap({measure}_bins))) AS p{str(100 * q).rstrip('0').rstrip('.').replace('.', '_')}"
        for q in QUANTILES
    )
    return (
        f"SELECT\n    {by},\n    sum({measure}_count) AS requests,\n    {columns}\n"
        f"FROM {views[0]}\n"
        "WHERE window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}\n"
        f"GROUP BY {by}\nORDER BY requests DESC\nLIMIT 1000"
    )
