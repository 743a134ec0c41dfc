"""Commands for prices: are they right, what holds when, and taking over somebody's list."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fleetpulse.commands.output import Result, answers, checking, err, print_rows
from fleetpulse.report import EXAMPLE_PRICES
from schemas.errors import ConfigError, FleetpulseError
from stream_jobs.yaml_files.errors import nearest

if TYPE_CHECKING:
    from stream_jobs.prices.list_map import Model, PriceMap
    from stream_jobs.prices.model import Band, Entry, Period, Prices

COLUMNS = ("section", "for", "from", "until", "value", "in USD", "line")
LEAST = ("in USD", "until")
UNREAD_SHOWN_MAX = 20
_UNUSED = "no price of it is used"

group = typer.Typer(no_args_is_help=True, help="Prices: GPUs, hosts, energy, and the list prices of hosted models.")


@group.command()
@answers
def check(
    file: Annotated[Path | None, typer.Argument(help="A price file; without it that of the configuration.")] = None,
) -> Result:
    """Check a price file: every mistake with its line, what stays unpriced, and a table of what it says.

    Example: [bold]fleetpulse prices check my-prices.yaml[/bold]
    """
    found = _read(file or _configured())
    rows = [row for entry in found.entries for period in entry.periods for row in _rows(entry, period)]
    mapped = found.list_map and dict(zip(("models", "priced"), _counts_of(found.list_map), strict=True))
    listed = {"version": found.version, "warnings": list(found.warnings), "prices": rows}

    def show() -> None:
        _print(f"{len(rows)} prices, all valid", rows, "valid, and no price")
        _warn(found.warnings)

    return Result({"valid": True, "problems": [], **listed, "list_prices": mapped}, show)


@group.command()
@answers
def show(
    at: Annotated[str | None, typer.Option(help="A day or a minute (2026-01-31T06:00:00Z); without it now.")] = None,
    gpu: Annotated[str | None, typer.Option(help="Only GPUs with these words in their name.")] = None,
    region: Annotated[
        str | None, typer.Option(help="With --gpu: only the price that it gets there, by its full product name.")
    ] = None,
    commitment: Annotated[str | None, typer.Option(help="With --region; without it the file's default one.")] = None,
    model: Annotated[str | None, typer.Option(help="List prices of this hosted model.")] = None,
    file: Annotated[
        Path | None, typer.Option(help="The price file; without it that of the configuration, else the example.")
    ] = None,
) -> Result:
    """Show the prices that hold on a day, each with the line it stands in; or the list prices of one model.

    Example: [bold]fleetpulse prices show --at 2026-01-31 --gpu H100[/bold]
    """
    if region is not None and gpu is None:
        raise ConfigError(
            "--region", region, "goes with --gpu, which it is the price of; without both all prices are shown"
        )
    if commitment is not None and region is None:
        raise ConfigError(
            "--commitment", commitment, "goes with --gpu and --region; without them those of all are shown"
        )
    at_ms = _instant(at)
    from stream_jobs.prices.model import instant_text

    file = file or _configured()
    found = _read(file)
    if model is not None:
        return _model(found, model)
    if gpu is not None and region is not None:
        rows = _there(found, gpu, region, commitment, at_ms)
    else:
        rows = [row for entry in found.entries if _fits(entry, gpu) for row in _held(entry, at_ms)]
    title = f"prices at {instant_text(at_ms)}" + (" (example prices)" if found.example else "")
    listed = {"at_ms": at_ms, "file": str(file), "version": found.version, "prices": rows}
    return Result(listed, lambda: _print(title, rows, "no price holds then"), wrong=not rows)


def _there(prices: Prices, gpu: str, region: str, commitment: str | None, at_ms: int) -> list[dict[str, Any]]:
    """The price that a GPU of this name gets there, and those of entries with more words, which its full name may
    have."""
    from stream_jobs.prices.model import words_of

    words, wanted = words_of(gpu), commitment or prices.default_commitment
    decided = prices.gpu_nusd_per_hour(gpu, region, commitment, at_ms)
    found = []
    for one in prices.entries:
        closer = one.section == "gpu_hour" and words < one.words and one.fits(one.words, region, wanted)
        found += [row for row in _held(one, at_ms) if closer or (decided and row["line"] == decided.at)]
    return found


def _configured() -> Path:
    from runtime.config import load

    return load().prices or EXAMPLE_PRICES


def _print(title: str, rows: Sequence[dict[str, Any]], empty: str) -> None:
    print_rows(title, COLUMNS, [_cells(row) for row in rows], empty=empty, least=LEAST)


@group.command("import")
@answers
def import_list(
    source: Annotated[Path, typer.Argument(help="A LiteLLM price map (.json) or a table (.csv, USD per million).")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the map is written.")],
    force: Annotated[bool, typer.Option("--force", help="Write over what stands there.")] = False,
) -> Result:
    """Import list prices of hosted models, exactly, and list what could not be read.

    Example: [bold]fleetpulse prices import model_prices.json -o list_prices.json[/bold]
    """
    from fleetpulse.whole_file import replacing
    from stream_jobs.prices.list_map import map_text
    from stream_jobs.prices.load import load_map

    if output.exists() and not force:
        raise ConfigError("--output", str(output), "exists; take another name or --force")
    with checking(_UNUSED):
        found = load_map(source)
    models, priced = _counts_of(found)
    if priced:
        with replacing(output) as file:
            file.write(map_text(found).encode())

    def show() -> None:
        _warn(found.unread)
        wrote = f"written to {output}" if priced else "nothing is written"
        err.print(f"{priced} of {models} models have prices; {wrote}", markup=False, highlight=False)

    written = str(output) if priced else None
    listed = {"models": models, "priced": priced, "written": written, "unread": list(found.unread)}
    return Result(listed, show, wrong=not priced)


def _read(file: Path) -> Prices:
    """The prices; a file with mistakes ends the command with 1 and all of them."""
    from stream_jobs.prices.load import load

    with checking(_UNUSED):
        return load(file)


def _instant(text: str | None) -> int:
    from stream_jobs.prices.model import instant_of

    if text is None:
        return int(time.time()) // 60 * 60_000
    try:
        return instant_of(text)
    except (ValueError, OverflowError):
        raise ConfigError("--at", text, "must be a day (2026-01-31) or a whole minute (2026-01-31T06:00:00Z)") from None


def _fits(entry: Entry, gpu: str | None) -> bool:
    from stream_jobs.prices.model import words_of

    if gpu is None:
        return True
    words = words_of(gpu)
    return bool(entry.section == "gpu_hour" and (words <= entry.words or entry.words <= words))


def _held(entry: Entry, at_ms: int) -> list[dict[str, Any]]:
    """The row of what an entry says then; none where it says nothing."""
    from stream_jobs.prices.model import in_force, price_of

    period = in_force(entry.periods, at_ms)
    if period is None:
        return []
    price = price_of(entry, period, at_ms)
    return [_row(entry, period, *((price.amount, price.text, price.at) if price else (None, "null", period.at)))]


def _rows(entry: Entry, period: Period) -> list[dict[str, Any]]:
    """A row for a period, and one for each of its hours."""
    bands = [_row(entry, period, band.value, band.text, band.at, _hours(band)) for band in period.bands]
    return [_row(entry, period, period.value, period.text, period.at), *bands]


def _row(entry: Entry, period: Period, amount: int | None, text: str, at: str, hours: str = "") -> dict[str, Any]:
    from stream_jobs.prices.model import UNITS, instant_text

    return {
        "section": entry.section,
        "for": entry.name.removeprefix(f"{entry.section} ") + hours,
        "from": instant_text(period.from_ms),
        "until": None if period.until_ms is None else instant_text(period.until_ms),
        "text": text,
        "amount": amount,
        "unit": UNITS[entry.section],
        "line": at,
        "source": entry.source,
    }


def _hours(band: Band) -> str:
    from stream_jobs.prices.model import DAYS

    days = ",".join(DAYS[day] for day in sorted(band.days))
    start, end = (f"{minute // 60:02d}:{minute % 60:02d}" for minute in (band.start, band.end))
    return f" {days} {start}-{end}"


def _cells(row: dict[str, Any]) -> tuple[Any, ...]:
    from stream_jobs.prices.amounts import NANO_DIGITS

    usd = None
    if row["unit"].startswith("nUSD") and row["amount"] is not None:
        whole, part = divmod(row["amount"], 10**NANO_DIGITS)
        usd = f"{whole}.{part:09d}".rstrip("0").rstrip(".")
    place = Path(row["line"]).name
    return row["section"], row["for"], row["from"], row["until"], row["text"], usd, place


def _model(prices: Prices, name: str) -> Result:
    if prices.list_map is None:
        raise ConfigError("--model", name, "the price file names no map; add `list_prices: {map: FILE}`")
    model = prices.list_map.find(name, prices.aliases)
    if model is None:
        raise FleetpulseError(f"no list price for {name!r}; {nearest(name, prices.list_map.models)}")
    rates = _rates(model)
    columns = ("priced", "tier", "prompts above", "USD", "per")
    rows = [(one["kind"], one["tier"], one["above_tokens"], one["usd"], one["per"]) for one in rates]
    title, empty = f"{model.key} ({Path(model.at).name})", f"{model.key} has no price in the map"
    listed = {"model": model.key, "provider": model.provider, "line": model.at, "rates": rates}
    return Result(listed, partial(print_rows, title, columns, rows, empty=empty))


def _rates(model: Model) -> list[dict[str, Any]]:
    from stream_jobs.prices.list_map import TOKEN_KINDS, dollars

    return [
        {
            "kind": one.kind,
            "tier": one.tier,
            "above_tokens": one.above,
            "pusd": rate.pusd,
            "usd": None if rate.pusd is None else dollars(rate.pusd * (10**6 if one.kind in TOKEN_KINDS else 1)),
            "per": "million tokens" if one.kind in TOKEN_KINDS else one.kind.replace("_", " "),
            "field": rate.field,
        }
        for one, rate in sorted(model.rates.items(), key=lambda pair: (pair[0].tier, pair[0].above))
    ]


def _counts_of(prices: PriceMap) -> tuple[int, int]:
    """Models, and how many of them have a price."""
    priced = sum(any(rate.pusd is not None for rate in one.rates.values()) for one in prices.models.values())
    return len(prices.models), priced


def _warn(lines: tuple[str, ...]) -> None:
    for line in lines[:UNREAD_SHOWN_MAX]:
        err.print(line, style="yellow", markup=False, highlight=False, soft_wrap=True)
    if len(lines) > UNREAD_SHOWN_MAX:
        err.print(f"and {len(lines) - UNREAD_SHOWN_MAX} more; all of them with --json", markup=False, highlight=False)
