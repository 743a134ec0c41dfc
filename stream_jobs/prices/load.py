"""Price files and the maps of list prices beside them. Every mistake of a file comes at once, with its line.

``load`` and ``load_map`` touch the disk, ``parse_prices`` does not. What a valid file leaves open is no mistake but a
warning, so that a null on a bill is no surprise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import inf
from pathlib import Path

from stream_jobs.prices.amounts import HOUR_BELOW, KWH_BELOW
from stream_jobs.prices.file import USD, ListPrices, PriceFile
from stream_jobs.prices.list_csv import read_csv
from stream_jobs.prices.list_map import MAP_BYTES_MAX, PriceMap, read_map, version_of
from stream_jobs.prices.model import ANY, EXAMPLE, Band, Entry, Period, Prices, instant_text
from stream_jobs.yaml_files.errors import FileError, quoted
from stream_jobs.yaml_files.sections import read, validated
from stream_jobs.yaml_files.tree import Items, Table, Word, parse

ABSENT = {
    "gpu_hour": "no gpu_hour: GPU time is unpriced",
    "host_hour": "no host_hour: hosts are unpriced beside their GPUs; write 0 USD/host-hour where GPU prices hold it",
    "energy": "no energy: energy is unpriced; write 0 USD/kWh where GPU prices hold it",
    "pue": "no pue: energy at the meter is unknown, and so is its cost; write 1 where it is in the tariff",
    "grid": "no grid: emissions are unknown",
}
"""What the bill lacks without a section."""
BELOW = {
    "gpu_hour": (HOUR_BELOW, "1000000 USD/GPU-hour"),
    "host_hour": (HOUR_BELOW, "1000000 USD/host-hour"),
    "energy": (KWH_BELOW, "922 USD/kWh"),
    "grid": (KWH_BELOW, "922000 gCO2e/kWh"),
}
"""What amounts of a section must be below: in its tiny unit, after exchange, and as the file has it."""


def load(path: Path) -> Prices:
    """The prices of a file and of the map beside it. Raises ``FileError`` with every mistake."""
    return parse_prices(read(path), str(path), lambda name: load_map(path.parent / name))


def load_map(path: Path) -> PriceMap:
    """List prices of hosted models: a map, or a table where the name ends in ``.csv``. Raises ``FileError``."""
    reader = read_csv if path.suffix.lower() == ".csv" else read_map
    return reader(read(path, MAP_BYTES_MAX), str(path))


def parse_prices(data: bytes, path: str, map_of: Callable[[str], PriceMap] | None = None) -> Prices:
    """The prices that these bytes hold; ``path`` stands in errors. Raises ``FileError`` and nothing else.

    ``map_of`` gives the map of a name in the file; without it there are no list prices.
    """
    tree = parse(data, path, "at least `gpu_hour:`")
    rates = tree.get("exchange_rates")
    named = [one.get("currency") for one in rates if isinstance(one, Table)] if isinstance(rates, Items) else []
    currencies = [one for one in named if isinstance(one, Word)]
    file = validated(PriceFile, tree, path, currencies)
    entries, listed = file.entries(), file.list_prices
    if wrong := [pair for one in entries for pair in _too_much(one)]:
        raise FileError(path, *wrong)
    list_map = _map(listed, path, map_of) if listed and map_of else None
    return Prices(
        entries,
        warnings_of(entries, path, file.default_commitment),
        file.default_commitment,
        list_map,
        {name: str(target) for name, target in listed.aliases.items()} if listed else {},
        (EXAMPLE if file.example else "") + version_of(data, (list_map.version if list_map else "").encode()),
    )


def _too_much(one: Entry) -> Iterable[tuple[str, str]]:
    """Amounts that a bill could not hold, with their places."""
    below, text = BELOW.get(one.section, (inf, ""))
    for period in one.periods:
        amounts: list[tuple[str, Period | Band]] = [("value", period)]
        amounts += [("hours.value", band) for band in period.bands]
        for key, held in amounts:
            if held.value is not None and held.value >= below:
                check = "its unit" if USD in held.text or one.section == "grid" else "its unit and exchange rate"
                yield held.at, f"{one.section}.periods.{key}: {quoted(held.text)} must be below {text}; check {check}"


def _map(listed: ListPrices, path: str, map_of: Callable[[str], PriceMap]) -> PriceMap:
    try:
        found = map_of(listed.map)
    except FileError as error:
        raise FileError(path, (listed.map.at, f"list_prices.map: {error.problems[0]}")) from None
    unknown = {name: target for name, target in listed.aliases.items() if target not in found.models}
    if unknown:
        must = "is no model of the map; write a key of the map"
        raise FileError(path, *((to.at, f"list_prices.aliases.{name}: {to!r} {must}") for name, to in unknown.items()))
    return found


def warnings_of(entries: Iterable[Entry], path: str, commitment: str) -> tuple[str, ...]:
    """Sections that are not there, GPUs without a price for the ``commitment`` of bills, spans without a price, prices
    of 0."""
    entries = tuple(entries)
    there = {one.section for one in entries}
    billed = {(one.words, one.region) for one in entries if (one.section, one.commitment) == ("gpu_hour", commitment)}
    absent = [f"{path}:1: {text}" for name, text in ABSENT.items() if name not in there]
    unbilled = f"unpriced: bills use default_commitment ({commitment}) alone, and this GPU has no entry of it"
    found = [*absent]
    for one in entries:
        others = one.section == "gpu_hour" and one.commitment != commitment
        if others and not any(words <= one.words and region in (ANY, one.region) for words, region in billed):
            found.append(f"{one.at}: {one.name}: {unbilled}")
        found += [f"{at}: {one.name}: {text}" for at, text in _open(one)]
    return tuple(found)


def _open(one: Entry) -> Iterable[tuple[str, str]]:
    for period in one.periods:
        if period.value is None:
            until = "" if period.until_ms is None else f" until {instant_text(period.until_ms)}"
            why = "null" if period.text == "null" else f"{period.text} without an exchange rate"
            yield period.at, f"unpriced from {instant_text(period.from_ms)}{until} ({why})"
        elif period.value == 0 and one.section == "gpu_hour":
            yield period.at, "costs nothing; write null where the price is unknown"
    if one.section == "host_hour" and one.gpus is None and any(period.value for period in one.periods):
        yield one.at, "unpriced: the number of GPUs that share a host is unknown; write `gpus: 8`"
    last = one.periods[-1]
    if last.until_ms is not None:
        yield last.at, f"unpriced from {instant_text(last.until_ms)} on, where its last period ends"
