"""A table of list prices as comma-separated text, as a map. Pure.

Columns: ``model``; if wanted ``provider``, ``mode``, ``tier`` and ``above_tokens``; and any kinds of tokens, each in
USD per million. An empty cell is no price.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from io import StringIO

from stream_jobs.prices.list_fields import BASES, SERVICE_TIERS, STANDARD, TIERS, TOKEN_KINDS, Field
from stream_jobs.prices.list_map import MAP_BYTES_MAX, Model, PriceMap, Rate, pusd_of, version_of
from stream_jobs.prices.problems import PricesError
from stream_jobs.yaml_files.problems import nearest, quoted

ABOUT = ("model", "provider", "mode", "tier", "above_tokens")
COLUMNS = (*ABOUT, *TOKEN_KINDS)
MILLION = 1_000_000


def read_csv(data: bytes, path: str) -> PriceMap:
    """The models of a table. Raises ``PricesError`` with every mistake of the header; ``unread`` holds the rest."""
    rows = csv.reader(StringIO(_text(data, path)))
    unread: list[str] = []
    models: dict[str, Model] = {}
    try:
        names = [cell.strip().lower() for cell in next(rows, [])]
        _judge(names, path)
        for cells in rows:
            if any(cell.strip() for cell in cells):
                _add(models, names, [cell.strip() for cell in cells], f"{path}:{rows.line_num}", unread)
    except csv.Error as error:
        raise PricesError(path, (f"{path}:{rows.line_num}: this is no CSV: {error}",)) from None
    return PriceMap(path, models, tuple(unread), version_of(data))


def _text(data: bytes, path: str) -> str:
    if len(data) > MAP_BYTES_MAX:
        raise PricesError(path, (f"{path}:1: the table is larger than {MAP_BYTES_MAX} bytes; split it",))
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise PricesError(path, (f"{path}:{line}: this is no UTF-8; save it as UTF-8",)) from None


def _judge(names: Sequence[str], path: str) -> None:
    wrong = [
        f"{path}:1: column {quoted(name)} is not known; {nearest(name, COLUMNS)}"
        for name in names
        if name not in COLUMNS
    ]
    wrong += [
        f"{path}:1: column {quoted(name)} stands twice" for name in sorted({n for n in names if names.count(n) > 1})
    ]
    if "model" not in names:
        wrong.append(f"{path}:1: there is no column `model`; write one header line, like {','.join(COLUMNS[:2])},input")
    if wrong:
        raise PricesError(path, tuple(wrong))


def _add(models: dict[str, Model], names: Sequence[str], cells: Sequence[str], at: str, unread: list[str]) -> None:
    if len(cells) != len(names):
        unread.append(f"{at}: {len(cells)} cells, but the header has {len(names)}; the line is left out")
        return
    row = dict(zip(names, cells, strict=True))
    tier, above = row.get("tier") or STANDARD, row.get("above_tokens") or "0"
    if tier not in SERVICE_TIERS or not row["model"] or not (above.isascii() and above.isdigit() and len(above) < 10):
        unread.append(
            f"{at}: needs a model, a tier ({', '.join(SERVICE_TIERS)} or nothing) and whole above_tokens; left out"
        )
        return
    if int(above) % 1_000:
        unread.append(f"{at}: above_tokens = {above} must be a multiple of 1000; the line is left out")
        return
    known = models.get(row["model"]) or Model(row["model"], at, row.get("provider") or None, row.get("mode") or None)
    rates = _rates(row, tier, int(above), at, unread)
    twice = sorted(one.kind for one in rates if one in known.rates)
    unread += [f"{at}: {kind} of {quoted(known.key)} stands twice; the first one counts" for kind in twice]
    models[known.key] = Model(known.key, known.at, known.provider, known.mode, {**rates, **known.rates})


def _rates(row: Mapping[str, str], tier: str, above: int, at: str, unread: list[str]) -> dict[Field, Rate]:
    found: dict[Field, Rate] = {}
    for kind in TOKEN_KINDS:
        text = row.get(kind)
        if not text:
            continue
        pusd: int | None = None
        try:
            million = pusd_of(text)
            if million % MILLION:
                raise ValueError("has more digits than a pico-dollar a token (6 behind the point)")
            pusd = million // MILLION
        except ValueError as error:
            unread.append(f"{at}: {kind} {quoted(text)} of {quoted(row['model'])} {error}")
        found[Field(kind, tier, above)] = Rate(pusd, field_name(kind, tier, above))
    return found


def field_name(kind: str, tier: str, above: int) -> str:
    """The map's name of a token price."""
    base = next(name for name, one in BASES.items() if one == kind.removesuffix("_1h"))
    hour = "_above_1hr" if kind.endswith("_1h") else ""
    length = f"_above_{above // 1_000}k_tokens" if above else ""
    service = "" if tier == STANDARD else "_" + next(name for name, one in TIERS.items() if one == tier)
    return f"{base}{hour}{length}{service}"
