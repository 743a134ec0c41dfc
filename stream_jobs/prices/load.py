"""Price files: read and checked. Every mistake of a file is told at once, with its line.

A file is a mapping of ``exchange_rates``, ``default_commitment``, ``gpu_hour``, ``host_hour``, ``energy``, ``pue``,
``grid`` and ``list_prices``. Only ``load`` touches the disk.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from stream_jobs.prices.amounts import NANO_DIGITS, currency, number
from stream_jobs.prices.checking import no_key_twice, warnings_of
from stream_jobs.prices.list_csv import read_csv
from stream_jobs.prices.list_map import MAP_BYTES_MAX, PriceMap, read_map, version_of
from stream_jobs.prices.model import DEFAULT_COMMITMENT, Entry, Prices
from stream_jobs.prices.periods import Period, bounds, in_a_row
from stream_jobs.prices.problems import PricesError
from stream_jobs.prices.reading import SECTIONS, Rates, Reader, listed
from stream_jobs.prices.tariff import required
from stream_jobs.yaml_files.nodes import BYTES_MAX, Listing, Node, Scalar, Table, parse
from stream_jobs.yaml_files.problems import FileError, Problems, WrongError
from stream_jobs.yaml_files.scalars import known_keys, table, word

FILE_KEYS = ("exchange_rates", "default_commitment", *SECTIONS, "list_prices")
MapReader = Callable[[str, str], PriceMap]
"""Gives the map of a name in the file; the second argument is the place that asks for it."""


def load(path: Path) -> Prices:
    """The prices of a file and of the map beside it. Raises ``PricesError`` with every mistake."""

    def beside(name: str, at: str) -> PriceMap:
        try:
            return load_map(path.parent / name)
        except PricesError as error:
            raise WrongError(at, f"map: {error.problems[0]}") from None

    return parse_prices(_read(path, BYTES_MAX), str(path), beside)


def load_map(path: Path) -> PriceMap:
    """List prices of hosted models: a map, or a table where the name ends in ``.csv``. Raises ``PricesError``."""
    read = read_csv if path.suffix.lower() == ".csv" else read_map
    return read(_read(path, MAP_BYTES_MAX), str(path))


def _read(path: Path, bytes_max: int) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(bytes_max + 1)
    except (OSError, ValueError) as error:
        said = getattr(error, "strerror", None) or str(error)
        raise PricesError(str(path), (f"{path}:1: cannot be read: {said}; check path and rights",)) from None


def parse_prices(data: bytes, path: str, map_of: MapReader | None = None) -> Prices:
    """The prices that these bytes hold; ``path`` stands in errors. Raises ``PricesError`` and nothing else."""
    told = Problems()
    try:
        root = _root(parse(data, path), path, told)
    except FileError as error:
        raise PricesError(path, error.problems) from None
    made = _prices(root, path, map_of, told) if root else Prices()
    if told.lines:
        raise PricesError(path, told.in_order())
    return replace(made, version=version_of(data, (made.list_map.version if made.list_map else "").encode()))


def _root(node: Node | None, path: str, told: Problems) -> Table | None:
    with told.collected():
        if node is None or (isinstance(node, Scalar) and node.null):
            raise WrongError(f"{path}:1", "the file is empty; it needs at least `gpu_hour:`")
        root = table(node, "a price file")
        for wrong in known_keys(root, "a price file", FILE_KEYS):
            told.add(wrong.at, wrong.what)
        return root
    return None


def _prices(root: Table, path: str, map_of: MapReader | None, told: Problems) -> Prices:
    commitment = DEFAULT_COMMITMENT
    with told.collected():
        given = root.get("default_commitment")
        commitment = commitment if given is None else word(given, "default_commitment")
    reader = Reader(_rates(root.get("exchange_rates"), told), commitment, told)
    entries: list[Entry] = []
    for name in SECTIONS:
        entries += reader.entries(name, root.get(name))
    no_key_twice(entries, told)
    list_map, aliases = _list_prices(root.get("list_prices"), map_of, told)
    return Prices(tuple(entries), warnings_of(entries, path), commitment, list_map, aliases)


def _rates(node: Node | None, told: Problems) -> Rates:
    found: dict[str, tuple[Period, ...]] = {}
    for one in listed(node, "exchange_rates", told):
        with told.collected():
            entry = table(one, "an exchange rate")
            for wrong in known_keys(entry, "an exchange rate", ("currency", "periods", "source")):
                told.add(wrong.at, wrong.what)
            name = currency(required(entry, "currency"))
            if name in found:
                raise WrongError(entry.at, f"{name} stands twice; put all its periods into one entry")
            found[name] = ()  # known from here on, so that a mistake below is told once
            found[name] = _rate_periods(required(entry, "periods"), told)
    return found


def _rate_periods(node: Node, told: Problems) -> tuple[Period, ...]:
    if not isinstance(node, Listing) or not node.items:
        raise WrongError(node.at, "periods must be a list of `{from: 2026-01-01, usd: 1.0850}` with one or more")
    found = []
    for one in node.items:
        with told.collected():
            period = table(one, "a period of an exchange rate")
            for wrong in known_keys(period, "a period of an exchange rate", ("from", "until", "usd")):
                told.add(wrong.at, wrong.what)
            from_ms, until_ms = bounds(period)
            usd = required(period, "usd")
            unknown = isinstance(usd, Scalar) and usd.null
            rate = None if unknown else number(usd, "usd", NANO_DIGITS)
            if rate == 0:
                raise WrongError(usd.at, "usd must be above 0: how many dollars one unit of the currency is")
            found.append(Period(from_ms, until_ms, rate, usd.at))
    return in_a_row(found, told, "usd: null" if len(found) == len(node.items) else "")


def _list_prices(node: Node | None, map_of: MapReader | None, told: Problems) -> tuple[PriceMap | None, dict[str, str]]:
    if node is None:
        return None, {}
    found: PriceMap | None = None
    with told.collected():
        section = table(node, "list_prices")
        for wrong in known_keys(section, "list_prices", ("map", "aliases")):
            told.add(wrong.at, wrong.what)
        name = required(section, "map")
        if map_of is not None:
            found = map_of(word(name, "map"), name.at)
        return found, _aliases(section.get("aliases"), found, told)
    return found, {}


def _aliases(node: Node | None, known: PriceMap | None, told: Problems) -> dict[str, str]:
    found: dict[str, str] = {}
    for key, value in table(node, "aliases").pairs if node else ():
        with told.collected():
            target = word(value, f"alias {key.text}")
            if known is not None and target not in known.models:
                raise WrongError(value.at, f"alias {key.text}: the map has no model {target!r}; write a key of the map")
            found[key.text] = target
    return found
