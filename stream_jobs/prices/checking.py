"""What a valid price file leaves open: no mistake, but said, so that a null on a bill surprises nobody. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from stream_jobs.prices.model import ANY, Entry
from stream_jobs.prices.periods import Period, instant_text
from stream_jobs.yaml_files.problems import Problems

ABSENT = {
    "gpu_hour": "no gpu_hour: GPU time is unpriced",
    "host_hour": "no host_hour: hosts are unpriced beside their GPUs; write 0 USD/host-hour where GPU prices hold it",
    "energy": "no energy: energy is unpriced; write 0 USD/kWh where GPU prices hold it",
    "pue": "no pue: energy at the meter is unknown, and so is its cost; write 1 where it is in the tariff",
    "grid": "no grid: emissions are unknown",
}
"""What the bill lacks without a section."""


def no_key_twice(entries: Iterable[Entry], told: Problems) -> None:
    """Tell entries for the same thing: their periods would overlap unseen."""
    first: dict[object, Entry] = {}
    for one in entries:
        before = first.setdefault(one.key, one)
        if before is not one:
            told.add(one.at, f"{called(one)} stands already at {before.at}; put all its periods into one entry")


def called(one: Entry) -> str:
    """An entry's name for people."""
    parts = [one.gpu, one.region, one.commitment]
    named = " / ".join(part for part in parts if part != ANY)
    return f"{one.section} {named or ANY}"


def warnings_of(entries: Sequence[Entry], path: str) -> tuple[str, ...]:
    """Sections that are not there, spans without a price, prices of 0."""
    there = {one.section for one in entries}
    absent = [f"{path}:1: {said}" for name, said in ABSENT.items() if name not in there]
    return (*absent, *(line for one in entries for line in _open(one)))


def _open(one: Entry) -> Iterable[str]:
    for period in one.periods:
        if period.value is None:
            until = "" if period.until_ms is None else f" until {instant_text(period.until_ms)}"
            why = "null" if period.said == "null" else f"{period.said} without an exchange rate"
            yield f"{period.at}: {called(one)}: unpriced from {instant_text(period.from_ms)}{until} ({why})"
        elif period.value == 0 and one.section == "gpu_hour":
            yield f"{period.at}: {called(one)}: costs nothing; write null where the price is unknown"
    if one.section == "host_hour" and one.gpus is None and any(period.value for period in one.periods):
        yield f"{one.at}: {called(one)}: unpriced, because nobody says how many GPUs share a host; write `gpus: 8`"
    yield from _ends(one, one.periods[-1:])


def _ends(one: Entry, last: Sequence[Period]) -> Iterable[str]:
    for period in last:
        if period.until_ms is not None:
            end = instant_text(period.until_ms)
            yield f"{period.at}: {called(one)}: unpriced from {end} on, where its last period ends"
