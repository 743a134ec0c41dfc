"""A table of list prices as comma-separated text, as a map. Pure.

Columns: ``model``; if wanted ``provider``, ``mode``, ``tier`` and ``above_tokens``; and any kinds of tokens, each in
USD per million. An empty cell is no price.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal, localcontext
from io import StringIO

from stream_jobs.prices.list_map import (
    BASES,
    DIGITS_MAX,
    MAP_BYTES_MAX,
    SERVICE_TIERS,
    STANDARD,
    TIERS,
    TOKEN_KINDS,
    Model,
    PriceMap,
    rates_of,
    version_of,
)
from stream_jobs.yaml_files.errors import FileError, decoded, nearest, quoted

COLUMNS = ("model", "provider", "mode", "tier", "above_tokens", *TOKEN_KINDS)


def read_csv(data: bytes, path: str) -> PriceMap:
    """The models of a table. Raises ``FileError`` with every mistake of the header; ``unread`` holds the rest."""
    rows = csv.reader(StringIO(decoded(data, path, MAP_BYTES_MAX)))
    unread: list[str] = []
    models: dict[str, Model] = {}
    try:
        names = [cell.strip().lower() for cell in next(rows, [])]
        if wrong := _wrong_columns(names):
            raise FileError(path, *((f"{path}:1", what) for what in wrong))
        for cells in rows:
            if any(cell.strip() for cell in cells):
                at = f"{path}:{rows.line_num}"
                try:
                    unread += [f"{at}: {what}" for what in _add(models, names, [cell.strip() for cell in cells], at)]
                except ValueError as error:
                    unread.append(f"{at}: {error}; the line is left out")
    except csv.Error as error:
        raise FileError(path, (f"{path}:{rows.line_num}", f"this is no CSV: {error}")) from None
    return PriceMap(path, models, tuple(unread), version_of(data))


def _wrong_columns(names: Sequence[str]) -> list[str]:
    unknown = [f"column {quoted(name)} is not known; {nearest(name, COLUMNS)}" for name in names if name not in COLUMNS]
    twice = [f"column {quoted(name)} stands twice" for name in sorted({n for n in names if names.count(n) > 1})]
    needs = f"there is no column `model`; write one header line, like {','.join(COLUMNS[:2])},input"
    return [*unknown, *twice, *([] if "model" in names else [needs])]


def _add(models: dict[str, Model], names: Sequence[str], cells: Sequence[str], at: str) -> list[str]:
    """What could not be read. Raises ``ValueError`` for a line that cannot be read at all."""
    if len(cells) != len(names):
        raise ValueError(f"{len(cells)} cells, but the header has {len(names)}")
    row = dict(zip(names, cells, strict=True))
    tier, above = row.get("tier") or STANDARD, row.get("above_tokens") or "0"
    if tier not in SERVICE_TIERS or not row["model"] or not (above.isascii() and above.isdigit() and len(above) < 10):
        raise ValueError(f"needs a model, a tier ({', '.join(SERVICE_TIERS)} or nothing) and whole above_tokens")
    if int(above) % 1_000:
        raise ValueError(f"above_tokens = {above} must be a multiple of 1000")
    known = models.get(row["model"]) or Model(row["model"], at, row.get("provider") or None, row.get("mode") or None)
    unread: list[str] = []
    prices = {field_name(kind, tier, int(above)): _of_a_token(row[kind]) for kind in TOKEN_KINDS if row.get(kind)}
    rates = rates_of(prices, unread)
    twice = sorted(one.kind for one in rates if one in known.rates)
    models[known.key] = replace(known, rates={**rates, **known.rates})
    unread += [f"{kind} stands twice; the first one counts" for kind in twice]
    return [f"{quoted(known.key)}: {what}" for what in unread]


def _of_a_token(text: str) -> Decimal | str:
    """A price of a million tokens by the token; the text itself where it is none."""
    with localcontext(prec=DIGITS_MAX), suppress(ArithmeticError):
        return Decimal(text).scaleb(-6)
    return text


def field_name(kind: str, tier: str, above: int) -> str:
    """The map's name of a token price."""
    base = next(name for name, one in BASES.items() if one == kind.removesuffix("_1h"))
    hour = "_above_1hr" if kind.endswith("_1h") else ""
    length = f"_above_{above // 1_000}k_tokens" if above else ""
    service = "" if tier == STANDARD else "_" + next(name for name, one in TIERS.items() if one == tier)
    return f"{base}{hour}{length}{service}"
