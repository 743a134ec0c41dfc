"""The report as a page for people: which words, which order, which digits. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from fleetpulse.dashboard.values import covered_text
from fleetpulse.report import BY_EXAMPLES, tables
from fleetpulse.report import amounts as a
from fleetpulse.report.amounts import ratio
from fleetpulse.report.hosted import list_prices
from fleetpulse.report.others import with_other_failures
from fleetpulse.report.page import Headline, Page, Section

Report = Mapping[str, Any]


def page(report: Report) -> Page:
    """The whole report."""
    bill = report["bill"]
    return Page(
        title="What the fleet cost" + (" (example prices)" if report["prices"]["example"] else ""),
        subtitle=f"{a.instant(report['from_ms'])} to {a.instant(report['to_ms'])} UTC, {_covered(report)}",
        headlines=list(_headlines(report)),
        sections=[section for section in _sections(report) if section.tables or section.empty],
        warnings=[*_warnings(bill), *_silence(report["unobserved"]), *_open_joins(report)],
        foot=list(_foot(report)),
    )


def _covered(report: Report) -> str:
    """How much of the range the bill is of."""
    return covered_text(report["bill"]["billed_ms"] / 1_000, report["to_ms"] - report["from_ms"], "bills")


def _headlines(report: Report) -> Iterator[Headline]:
    bill, split = report["bill"], report["split"]
    total = bill["total_nusd"]
    spent = {row["part"]: (row["cost_nusd"] or 0) for row in split}
    unused = spent.get("__idle__", 0) + spent.get("__wasted__", 0)
    tokens = sum((row["prompt_tokens"] or 0) + (row["output_tokens"] or 0) for row in report["models"])
    requests = sum(row["priced_requests"] for row in report["models"])
    yield Headline("Bill", a.usd(total), f"{a.gpu_hours(bill['gpu_ms'])} of GPU time")
    yield Headline("For requests", a.share(ratio(spent.get("request", 0), total)), a.usd(spent.get("request")))
    yield Headline("Idle or waiting", a.share(ratio(unused, total)), a.usd(unused))
    every = "all of the bill" + (", silent GPUs beside it" if _silent_ms(report["unobserved"]) else "")
    yield Headline("A million tokens", a.dollars(_each(total, tokens, a.MILLION)), f"of {a.count(tokens)}, {every}")
    yield Headline("A request", a.dollars(_each(total, requests, 1)), f"of {a.count(requests)}, {every}")
    yield Headline("Energy, with PUE", a.energy(bill["meter_mj"]), f"{a.carbon(bill['carbon_ug'])} CO2e")


def _each(nusd: int | None, units: int, per: int) -> float | None:
    found = ratio(nusd, units)
    return None if found is None else found * per / a.USD_NUSD


def _warnings(bill: Mapping[str, Any]) -> Iterator[str]:
    if bill["unpriced_gpu_ms"]:
        hours = a.gpu_hours(bill["unpriced_gpu_ms"])
        yield (
            f"{hours} of GPU time lack the price of their GPU or host; what is known is in the bill, "
            "and `fleetpulse prices check` says what is not."
        )
    if bill["unpriced_energy_mj"]:
        yield f"{a.energy(bill['unpriced_energy_mj'])} have no tariff or PUE and are not in the bill."
    if bill["uncounted_energy_mj"]:
        uncounted = a.energy(bill["uncounted_energy_mj"])
        yield f"Of {uncounted} the emissions are not known: no grid intensity or PUE when they were billed."
    if bill["unmeasured_gpu_ms"]:
        yield f"Of {a.gpu_hours(bill['unmeasured_gpu_ms'])} of GPU time the energy was not measured."
    if bill["estimated_gpu_ms"]:
        yield f"{a.gpu_hours(bill['estimated_gpu_ms'])} of GPU time are billed for gaps between readings: estimated."
    if bill["provisional_bills"]:
        yield f"{a.count(bill['provisional_bills'])} of {a.count(bill['bills'])} bills are provisional: still changing."
    if len(bill["prices_versions"]) > 1:
        yield f"Rated with {len(bill['prices_versions'])} versions of prices; `fleetpulse rerate` makes it one."


def _silent_ms(coverage: Sequence[Mapping[str, Any]]) -> int:
    return sum(row["silent_gpu_ms"] for row in coverage)


def _silence(coverage: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """What GPUs cost that did not report, beside the bill."""
    if silent_ms := _silent_ms(coverage):
        cost = a.usd(sum(row["unobserved_nusd"] or 0 for row in coverage))
        unpriced_ms = sum(row["unpriced_silent_gpu_ms"] for row in coverage)
        lacking = f", {a.gpu_hours(unpriced_ms)} of it without a price" if unpriced_ms else ""
        hours = a.gpu_hours(silent_ms)
        yield f"{hours} of GPU time have no reading: {cost} (`__unobserved__`) that no bill has{lacking}."


def _open_joins(report: Report) -> Iterator[str]:
    """What makes the bill say less than it could."""
    if report["prices"]["example"]:
        yield BY_EXAMPLES
    for row in report["joins"]:
        lacking, lacks = row["total"] - row["joined_events"], ", ".join(row["lacks"])
        of = f" ({lacks})" if lacks else ""
        if lacking and (row["counted"], row["joined_with"]) == ("requests", "GPUs"):
            yield f"{a.count(lacking)} requests stand beside GPUs without their engine{of}: they carry no cost."
        elif lacking and row["counted"] == "GPU samples":
            share = a.share(ratio(lacking, row["total"]))
            yield f"{share} of the samples of GPUs at work name no engine{of}: `fleetpulse doctor` says why."


def _sections(report: Report) -> Iterator[Section]:
    total = report["bill"]["total_nusd"]
    yield Section(
        "Where the money went",
        "Every minute's bill is split to the nano-dollar: these lines add up to the bill. Silent GPUs were read in the "
        "24 hours before and not now: no bill has that time, its price is that of their type.",
        [tables.split(report["split"], total, report["unobserved"]), tables.components(report["bill"])],
        tables.hours(report["hours"]),
    )
    yield Section(
        "Forecast",
        "The week repeated along its trend, learnt from up to eight weeks; the interval holds four times in five.",
        [tables.months(report["months"])],
        empty="Nothing was spent this month.",
    )
    yield Section(
        "What a token costs, by model",
        "Prices times tokens are the cost. Uncached: computing prompts. Generated: computing answers and keeping the "
        "cache meanwhile. Cached tokens cost nothing more. What no request caused has a row of its own.",
        [tables.MODELS.table(report["models"])],
        empty="No request ran.",
    )
    yield Section(
        "Self-hosted beside hosted",
        "All in: its share of the bills of its engines; silent GPUs are in none. List price: the same tokens at that "
        "of a hosted model. Break-even: how busy the GPUs would have to be for both to cost the same, if more requests "
        "cost nothing more here.",
        [list_prices(report["models"])],
        empty="No model has a list price; add aliases to the price file.",
    )
    yield Section(
        "Who used it",
        "Costs of the tenant's own requests, also of those not answered in full; then what is nobody's in particular.",
        [tables.tenants(report["tenants"])],
    )
    yield Section(
        "Good requests",
        "Good: ended well and met every objective of its class. All costs of the class are carried by its good ones; "
        "what one cost is not known where bills of the class lack a price.",
        [tables.goodput(report["goodput"])],
        empty="No service classes are defined; give a file with `slo_classes` (--slo).",
    )
    yield Section("Engines", "", [tables.ENGINES.table(report["engines"])], empty="No engine had a GPU.")
    beside = "Silent: time without a reading of GPUs of the 24 hours before, in no bill, at the price of their type."
    yield Section("GPUs by type", beside, [tables.GPU_MODELS.table(report["gpu_models"])])
    unused = report["idle"]
    yield Section("Idle GPUs", "No model was loaded.", [tables.idle(unused)], tables.idle_hours(unused), empty="None.")
    nothing = "Nobody got an answer for this."
    yield Section(
        "Requests not answered in full",
        nothing,
        [tables.FAILED.table(with_other_failures(report["failed"], tables.TOP))],
        empty="None.",
    )
    meter = "At the meter: times PUE. CO2e by the grid's intensity in each minute, split as energy is."
    yield Section("Energy and emissions", meter, [tables.ENERGY.table(report["energy"])])
    caps = report["power_caps"]
    yield Section(
        "Power limits",
        f"Measured, not modelled: minutes of computing, by the limit of the GPUs. {tables.cap_said(caps)}",
        [tables.POWER_CAPS.table(caps)],
        empty="No minute in which tokens were computed has a power limit beside it.",
    )
    yield Section("Budgets", "", [tables.budgets(report["budgets"])], empty="No budgets are set (--budgets).")
    yield Section(
        "Where each price is written",
        f"{Path(report['prices']['file']).name}, version {report['prices']['version'][:12]}",
        [tables.PRICES.table(report["prices"]["used"])],
        empty="No GPU was measured in this range.",
    )


def _foot(report: Report) -> Iterator[str]:
    bill = report["bill"]

    def versions(name: str) -> str:
        return ", ".join(str(one)[:12] for one in bill[name])

    yield f"Rated with prices {versions('prices_versions')}."
    yield f"Weights of the split: version {versions('weights_versions')}; metric definitions: version " + (
        f"{versions('definition_versions')}."
    )
    yield "Dollars are shown rounded; every sum is made of whole nano-dollars. Unknown is a dash, never 0."
