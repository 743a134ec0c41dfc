"""Pages as they are served: addresses, filters and options that work together."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fleetpulse.dashboard.concurrency_table import AT_ONCE, concurrency_hint
from fleetpulse.dashboard.heat_map import GPU_METRICS
from fleetpulse.dashboard.pages.host import gpus_counted
from fleetpulse.dashboard.pages.models import priced
from fleetpulse.dashboard.pages.request import cost_hint, cost_pairs, list_price, moment, one_of
from fleetpulse.dashboard.serve import PAGES
from fleetpulse.dashboard.shell import LABELS, OF_GPUS
from fleetpulse.dashboard.theme import DARK, LIGHT, css
from fleetpulse.queries.dashboard import query
from schemas.ddl.merging import labels_of, measures_of
from schemas.events.event_types import LLM_REQUESTS
from schemas.events.machine_events import GPU_SAMPLES


def test_addresses_are_unique() -> None:
    """Two pages at one address would hide one another."""
    assert len({page.path for page in PAGES}) == len({page.title for page in PAGES}) == len(PAGES)


def test_filters_are_dimensions_and_differ_from_options() -> None:
    """One name in an address has one meaning."""
    for page in PAGES:
        known = {field.name for event in (LLM_REQUESTS, GPU_SAMPLES) for field in labels_of(event)}

        assert set(page.filters) <= known, page.path
        assert not set(page.filters) & set(page.options), page.path
        assert not {"from", "to", "last", "live", "token"} & {*page.filters, *page.options}, page.path


def test_metrics_of_gpus_are_columns() -> None:
    """The heat map can be coloured by each of them."""
    columns = {measure.name for measure in measures_of(GPU_SAMPLES)}
    for name, metric in GPU_METRICS.items():
        assert {metric.total, metric.known} <= columns, name
        query("fleet_gpus").values(
            {**dict.fromkeys(query("fleet_gpus").parameters, ""), "total": metric.total, "known": metric.known}, 1
        )


def test_suggestions_know_their_dimensions() -> None:
    """Values of the others come from requests."""
    assert {field.name for field in labels_of(GPU_SAMPLES)} >= OF_GPUS
    assert set(LABELS) <= {field.name for event in (LLM_REQUESTS, GPU_SAMPLES) for field in labels_of(event)}


def test_a_request_shows_its_share_of_bills_and_what_is_not_known() -> None:
    """Nano-dollars are not rounded away; provisional bills and minutes without a price are said."""
    paid = {"cost_nusd": 1_250_001, "prefill_nusd": 1_000_000, "decode_nusd": 250_001, "kv_nusd": None}
    cost = {**paid, "share_meter_mj": 4_500, "share_carbon_ug": None, "share_gpu_ms": 12}
    cost |= {"minutes": 3, "no_work": 0}

    assert cost_pairs(cost) == [
        ("cost", "0.001250001 USD"), ("prefill", "0.001000000 USD"), ("decode", "0.000250001 USD"), ("kv", "–"),
        ("GPU time", "12 ms"), ("energy with PUE", "4.5 J"), ("CO2e", "–"),
    ]  # fmt: skip
    assert cost_hint(cost | {"all_final": 1, "unpriced_minutes": 0}) == "final bills"
    assert cost_hint(cost | {"all_final": 0, "unpriced_minutes": 2}) == "provisional bills, 2 of 3 min without price"
    assert cost_hint(cost | {"all_final": 0, "unpriced_minutes": 0, "no_work": 1}) == "final bills"


def test_a_host_counts_a_gpu_once_with_its_mig_devices() -> None:
    """Of which the GPU itself may report, or they alone."""
    own = {"gpu_uuid": "a", "part_of_gpu": None}
    devices = [{"gpu_uuid": uuid, "part_of_gpu": of} for uuid, of in (("MIG-1", "a"), ("MIG-2", "b"), ("MIG-3", "b"))]

    assert gpus_counted([own, *devices]) == ("2", "with 3 MIG devices")
    assert gpus_counted([own]) == ("1", "")
    assert gpus_counted([]) == ("0", "")


def test_a_request_says_that_others_have_its_id() -> None:
    """And a link names a moment, or none."""
    assert one_of(1) == ""
    assert one_of(3) == " · one of 3 requests with this id or trace id; page Requests lists them"
    assert [moment(text) for text in ("1800000000000", "", "-1", "１", "9" * 15)] == [1_800_000_000_000, *[None] * 4]


def test_latency_by_concurrency_says_what_it_is_of() -> None:
    """One window of several, where there are many; all tenants, whichever was chosen."""
    rows = [{"of_windows": 4}]

    assert concurrency_hint([]) == concurrency_hint([{"of_windows": 1}]) == AT_ONCE
    assert concurrency_hint(rows) == f"{AT_ONCE}, in one of 4 windows"
    assert concurrency_hint(rows, "acme") == f"{AT_ONCE}, of all tenants, in one of 4 windows"


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("/applications", ("custom", "custom_over_time")),
        ("/training", ("training", "training_ranks", "training_over_time")),
    ],
)
def test_what_is_chosen_holds_for_all_of_a_page(path: str, names: tuple[str, ...]) -> None:
    """Its charts are of the same rows as its tables."""
    (page,) = [page for page in PAGES if page.path == path]

    for name in names:
        assert set(page.filters) <= query(name).parameters.keys(), name


def _luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("name", ["text", "muted", "accent", "good", "warn", "bad"])
@pytest.mark.parametrize("ground", ["ground", "raised"])
def test_text_can_be_read(palette: object, name: str, ground: str) -> None:
    """A contrast of 4.5 or better (WCAG 2.1, 1.4.3)."""
    light, dark = sorted((_luminance(getattr(palette, name)), _luminance(getattr(palette, ground))), reverse=True)

    assert (light + 0.05) / (dark + 0.05) >= 4.5


def test_the_style_sheet_loads_nothing() -> None:
    """No font, no picture, no other sheet from anywhere."""
    assert "url(" not in css()
    assert "@import" not in css()


def test_a_request_shows_what_a_hosted_model_would_bill(tmp_path: Path) -> None:
    """By the entry of the map that its model stands for; a changed file is read again, a broken one is said."""
    file, names = tmp_path / "prices.yaml", ("model", "status", "input_tokens", "cached_tokens", "output_tokens")
    request = dict(zip(names, ("mine", "ok", 1_000, 0, 500), strict=True))
    (tmp_path / "map.json").write_text(
        '{"a": {"input_cost_per_token": 2.5e-06, "output_cost_per_token": 1e-05},'
        ' "b": {"input_cost_per_token": 1e-06, "output_cost_per_token": 1e-06, "cache_read_input_token_cost": 1e-07}}'
    )
    seen = []
    for at_s, target in enumerate(("a", "b", "nobody")):
        file.write_text(
            "gpu_hour: [{gpu: H100, periods: [{from: 2026-01-01, value: 2 USD/GPU-hour}]}]\n"
            f"list_prices: {{map: map.json, aliases: {{mine: {target}}}}}\n"
        )
        os.utime(file, (at_s, at_s))
        seen.append(list_price(file, request))

    assert seen[:2] == [
        ("list price", "0.007500000 USD (a; the hosted model has no cache price: the whole prompt is billed)"),
        ("list price", "0.001500000 USD (b)"),
    ]
    assert seen[2] is not None
    assert seen[2][1].startswith("prices cannot be read: ")


def test_models_have_their_unit_costs_and_none_without_a_bill() -> None:
    """What is nobody's is no model, whatever its name is."""
    costs = [
        {"model": "m", "nobody": 0, "per_million_in": 0.1, "per_million_out": 2.5, "cost": 7},
        {"model": "n", "nobody": 1, "per_million_in": 9.0, "per_million_out": 9.0, "cost": 7},
    ]

    assert priced([{"model": "m", "requests": 3}, {"model": "n", "requests": 4}], costs) == [
        {"model": "m", "requests": 3, "per_million_in": 0.1, "per_million_out": 2.5},
        {"model": "n", "requests": 4, "per_million_in": None, "per_million_out": None},
    ]
