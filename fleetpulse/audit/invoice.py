"""A provider's invoice of GPU hours beside the bills: hours and money by type, and by day where it has days. Pure.

What was billed and what silent GPUs cost (``gpu_coverage``) should be what was invoiced: GPUs are paid for whether they
report or not. A type of the invoice is the product name, or words that one product alone has (``H100``).
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from fleetpulse.report.amounts import USD_NUSD, instant
from schemas.errors import ConfigError
from schemas.limits import DAY_MS, HOUR_MS
from stream_jobs.prices.model import words_of

NEEDED, MORE = ("gpu_model", "gpu_hours"), ("usd", "day")
EVERY_DAY = -1
AMOUNT_MAX = 10**9
"""Hours or dollars of a line: as milliseconds and nano-dollars 64 bits hold it."""


@dataclass(frozen=True, slots=True)
class Invoiced:
    """A line: GPU milliseconds of a type, ``nusd`` None where the invoice has no money. ``day``: since 1970, UTC, or
    ``EVERY_DAY``."""

    gpu_model: str
    day: int
    gpu_ms: int
    nusd: int | None


@dataclass(frozen=True, slots=True)
class Compared:
    """One type (and day) of both sides. ``gpu_ms_off`` and ``nusd_off``: invoiced less billed and unobserved."""

    gpu_model: str
    day: str
    invoiced_gpu_ms: int
    billed_gpu_ms: int
    unobserved_gpu_ms: int
    gpu_ms_off: int
    invoiced_nusd: int | None
    billed_nusd: int
    unobserved_nusd: int
    nusd_off: int | None
    differs: bool


def read_invoice(name: str, lines: Iterable[str]) -> list[Invoiced]:
    """Lines of the CSV file. ``ConfigError`` names file and line of the first mistake."""
    rows = csv.reader(lines)
    try:
        head = [cell.strip().lower() for cell in next(rows, [])]
        unknown = sorted(set(head) - {*NEEDED, *MORE})
        if unknown or not set(NEEDED) <= set(head) or len(set(head)) < len(head):
            wanted = f"must have the columns {', '.join(NEEDED)}, and may have {', '.join(MORE)}"
            raise ConfigError(f"{name}:1", ",".join(head), wanted)
        found = []
        for row in rows:
            if any(cell.strip() for cell in row):
                found.append(_line(f"{name}:{rows.line_num}", head, row))
    except csv.Error as error:
        raise ConfigError(f"{name}:{rows.line_num}", "", f"must be CSV: {error}") from error
    if not found:
        raise ConfigError(f"{name}:{rows.line_num}", "", "must have a line of GPU hours")
    return found


def _line(place: str, head: Sequence[str], row: Sequence[str]) -> Invoiced:
    if len(row) != len(head):
        raise ConfigError(place, ",".join(row), f"must have {len(head)} values")
    cells = {name: cell.strip() for name, cell in zip(head, row, strict=True)}
    if not cells["gpu_model"]:
        raise ConfigError(place, "", "must name a type of GPU")
    day = EVERY_DAY
    if "day" in cells:
        try:
            day = (date.fromisoformat(cells["day"]) - date(1970, 1, 1)).days
        except ValueError:
            raise ConfigError(place, cells["day"], "must be a day (2026-01-31)") from None
    usd = cells.get("usd", "")
    nusd = _whole(place, usd, USD_NUSD, "US dollars") if usd else None
    return Invoiced(cells["gpu_model"], day, _whole(place, cells["gpu_hours"], HOUR_MS, "GPU hours"), nusd)


def _whole(place: str, text: str, times: int, what: str) -> int:
    try:
        number = Decimal(text.removeprefix("$"))
    except InvalidOperation:
        number = Decimal(-1)
    if not number.is_finite() or not 0 <= number <= AMOUNT_MAX:
        raise ConfigError(place, text, f"must be {what}, 0 or more and at most {AMOUNT_MAX:,}")
    return int((number * times).to_integral_value())


def span_of(lines: Sequence[Invoiced]) -> tuple[int, int] | None:
    """[from, to) of the days of an invoice [ms]; None where it has none."""
    days = [line.day for line in lines if line.day != EVERY_DAY]
    return (min(days) * DAY_MS, (max(days) + 1) * DAY_MS) if days else None


def holding(bounds: tuple[int, int], lines: Sequence[Invoiced]) -> tuple[int, int]:
    """The same range [ms]. Raises ``ConfigError`` where a day of the invoice is not in it as a whole."""
    first_ms, end_ms = span_of(lines) or bounds
    if first_ms < bounds[0] or end_ms > bounds[1]:
        given, days = (f"{instant(begin)} to {instant(end)}" for begin, end in (bounds, (first_ms, end_ms)))
        raise ConfigError(
            "--from, --to", given, f"must hold the days of the file, {days} (UTC); leave both out for these"
        )
    return bounds


def compared(lines: Sequence[Invoiced], coverage: Sequence[Mapping[str, Any]], tolerance: float) -> list[Compared]:
    """Rows by type (and day), of both sides; ``coverage`` are rows of ``cost_coverage``. ``tolerance``: the share of
    the invoiced, else of the billed, by which hours and money may be off."""
    by_day = span_of(lines) is not None
    products = {row["gpu_model"] for row in coverage}
    sums: dict[tuple[int, str], dict[str, int]] = defaultdict(lambda: defaultdict(int))
    priced: dict[tuple[int, str], set[bool]] = defaultdict(set)
    for line in lines:
        key = line.day, _product(line.gpu_model, products)
        sums[key]["invoiced_gpu_ms"] += line.gpu_ms
        sums[key]["invoiced_nusd"] += line.nusd or 0
        priced[key].add(line.nusd is not None)
    for row in coverage:
        of = sums[row["day"] if by_day else EVERY_DAY, row["gpu_model"]]
        of["billed_gpu_ms"] += row["billed_gpu_ms"]
        of["unobserved_gpu_ms"] += row["silent_gpu_ms"]
        of["billed_nusd"] += row["billed_nusd"] or 0
        of["unobserved_nusd"] += row["unobserved_nusd"] or 0
    return [
        _compared(*key, sums[key], tolerance, priced[key] or {True}) for key in sorted(sums) if any(sums[key].values())
    ]


def _compared(
    day: int, gpu_model: str, of: Mapping[str, int], tolerance: float, with_money: Collection[bool]
) -> Compared:
    """Money that some lines have and others have not is summed, and differs whatever it comes to."""
    priced = True in with_money
    gpu_ms_off = of["invoiced_gpu_ms"] - of["billed_gpu_ms"] - of["unobserved_gpu_ms"]
    nusd_off = of["invoiced_nusd"] - of["billed_nusd"] - of["unobserved_nusd"] if priced else None
    most_ms = tolerance * (of["invoiced_gpu_ms"] or of["billed_gpu_ms"])
    most_nusd = tolerance * (of["invoiced_nusd"] or of["billed_nusd"])
    return Compared(
        gpu_model or "several types",
        "" if day == EVERY_DAY else datetime.fromtimestamp(day * DAY_MS / 1_000, UTC).date().isoformat(),
        of["invoiced_gpu_ms"],
        of["billed_gpu_ms"],
        of["unobserved_gpu_ms"],
        gpu_ms_off,
        of["invoiced_nusd"] if priced else None,
        of["billed_nusd"],
        of["unobserved_nusd"],
        nusd_off,
        abs(gpu_ms_off) > most_ms or abs(nusd_off or 0) > most_nusd or len(with_money) > 1,
    )


def _product(name: str, products: Iterable[str]) -> str:
    """The one product that is called so, or has these words and no other, or at least these; the name itself where
    there is none or several."""
    words = words_of(name)
    same = [one for one in products if one.lower() == name.lower()] or [
        one for one in products if words_of(one) == words
    ]
    found = same or [one for one in products if words <= words_of(one)]
    return found[0] if len(found) == 1 else name


def as_dict(rows: Sequence[Compared], from_ms: int, to_ms: int, tolerance: float) -> dict[str, Any]:
    """What ``--json`` prints."""
    return {"from_ms": from_ms, "to_ms": to_ms, "tolerance": tolerance, "types": [asdict(row) for row in rows]}
