"""The page: the same numbers in a terminal and a browser, and nothing of anybody's labels is obeyed."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import pytest
from rich.console import Console

from fleetpulse import queries
from fleetpulse.queries.dashboard import query
from fleetpulse.report import money, tables
from fleetpulse.report.compose import page
from fleetpulse.report.hosted import list_prices
from fleetpulse.report.html import html
from fleetpulse.report.others import with_other_failures
from fleetpulse.report.page import Bars, Headline, Page, Section, Table
from fleetpulse.report.terminal import rendered
from schemas.definitions import END

HOUR_MS = 3_600_000
EVIL = "<script>alert(1)</script>\x1b[31m"


class Tags(HTMLParser):
    """Collects tags and what they link to."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag not in ("meta", "line", "rect"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in ("line", "rect"):
            assert self.open.pop() == tag


def report(**given: Any) -> dict[str, Any]:
    """The least that a report may have."""
    bill = {
        "bills": 3, "billed_ms": 60_000, "total_nusd": 5_000_000_000,
        "gpu_nusd": 5_000_000_000, "host_nusd": None, "energy_nusd": 0,
        "gpu_ms": 2 * HOUR_MS, "energy_mj": None, "meter_mj": None, "carbon_ug": None, "uncounted_energy_mj": 0,
        "unpriced_gpu_ms": HOUR_MS, "unpriced_energy_mj": 0,
        "unmeasured_gpu_ms": 0, "estimated_gpu_ms": 0, "provisional_bills": 1, "prices_versions": ["a", "b"],
        "weights_versions": [1], "definition_versions": [1],
    }  # fmt: skip
    split = [
        {
            "part": "__idle__",
            "what": "",
            "cost_nusd": 5_000_000_000,
            "energy_mj": None,
            "meter_mj": None,
            "carbon_ug": None,
            "gpu_ms": HOUR_MS,
        }
    ]
    names = ("unobserved", "hours", "models", "tenants", "engines", "gpu_models", "goodput", "energy", "idle", "failed",
             "power_caps", "months", "budgets")  # fmt: skip
    prices = {"file": "folder/p.yaml", "version": "abc", "used": [], "example": False}
    found: dict[str, Any] = {
        "from_ms": 0,
        "to_ms": HOUR_MS,
        "bill": bill,
        "split": split,
        "prices": prices,
        "joins": [],
    }
    return found | {name: [] for name in names} | given


def shown(what: Page) -> str:
    """What a terminal of 160 columns shows."""
    console = Console(width=160, force_terminal=False)
    with console.capture() as captured:
        console.print(*rendered(what), sep="\n")
    return captured.get()


def test_the_least_report_says_what_is_missing() -> None:
    """No models, no budgets, no energy: sentences and dashes, no zeros."""
    made = page(report())

    assert [one.value for one in made.headlines] == ["$5.00", "0.0 %", "100.0 %", "–", "–", "–"]
    assert list(made.warnings) == [
        "1.0 h of GPU time lack the price of their GPU or host; what is known is in the bill, "
        "and `fleetpulse prices check` says what is not.",
        "1 of 3 bills are provisional: still changing.",
        "Rated with 2 versions of prices; `fleetpulse rerate` makes it one.",
    ]
    said = {section.title: section.empty for section in made.sections if not any(t.rows for t in section.tables)}
    assert said["Forecast"] == "Nothing was spent this month."
    assert said["Self-hosted beside hosted"] == "No model has a list price; add aliases to the price file."
    assert said["Budgets"] == "No budgets are set (--budgets)."
    assert said["Good requests"] == "No service classes are defined; give a file with `slo_classes` (--slo)."


def test_silence_is_said_beside_the_bill() -> None:
    """What GPUs cost that did not report, and what of that time has no price; nothing where all reported."""
    silent = {"silent_gpu_ms": HOUR_MS, "unobserved_nusd": 2_500_000_000, "unpriced_silent_gpu_ms": 0}
    unpriced = {"silent_gpu_ms": HOUR_MS // 2, "unobserved_nusd": None, "unpriced_silent_gpu_ms": HOUR_MS // 2}

    made = page(report(unobserved=[silent, unpriced]))

    said = (
        "1.5 h of GPU time have no reading: $2.50 (`__unobserved__`) that no bill has, 30.0 min of it without a price."
    )
    assert said in made.warnings
    assert made.sections[0].tables[0].rows[-1][:4] == ("beside the bill: silent GPUs", "$2.50", "50.0 %", "1.5 h")
    assert made.sections[0].tables[0].rows[-2][:2] == ("all", "$5.00")
    assert [one.note for one in made.headlines[3:5]] == ["of 0, all of the bill, silent GPUs beside it"] * 2
    assert [one.note for one in page(report()).headlines[3:5]] == ["of 0, all of the bill"] * 2
    assert not [line for line in page(report()).warnings if "no reading" in line]


def tenant(name: str, nusd: int | None, nobody: int = 0) -> dict[str, Any]:
    """A row of ``cost_by`` with unit costs, of two requests."""
    return money.unit_costs({
        "tenant": name, "nobody": nobody, "cost_nusd": nusd,
        **dict.fromkeys(("requests", "priced_requests", "counted_requests"), 2 * (not nobody)),
        **dict.fromkeys(END, 0 if nobody else 1), "uncached_tokens": 1_000_000, "uncached_nusd": nusd,
        **dict.fromkeys(("cached_tokens", "output_tokens", "output_nusd", "carbon_ug")),
        **dict.fromkeys(f"{what}_per_million_{of}" for what in ("usd", "kwh", "g") for of in ("uncached", "output")),
    })  # fmt: skip


def test_who_used_it_adds_up_to_the_bill() -> None:
    """Twelve tenants: ten by name, the others as one row, and always what is nobody's."""
    rows = [tenant(f"t{n:02}", 10**9) for n in range(12)]
    rows += [tenant("__idle__", 5 * 10**9, 1), tenant("__unpriced__", None, 1)]

    many, few = tables.tenants(rows), tables.tenants([*rows[:2], *rows[12:]])

    column = [*many.columns].index("cost")
    assert [(row[0], row[column]) for row in many.rows[9:]] == [
        ("t09", "$1.00"), ("2 others", "$2.00"), ("idle GPUs", "$5.00"), ("without a price", "–"),
    ]  # fmt: skip
    assert many.rows[10][1:3] == ("4", "2")
    assert many.rows[10][many.columns.index("1M uncached")] == "$1.00"
    assert sum(many.shares) == pytest.approx(1)
    assert (many.caption, few.caption) == ("Top 10 of 12 tenants", "Top 2 of 2 tenants")
    assert [row[0] for row in few.rows] == ["t00", "t01", "idle GPUs", "without a price"]


def test_only_what_is_nobodys_is_named_by_its_part_of_the_bills() -> None:
    """A tenant may be called as a part is; who gave no name is not reported."""
    named = [tenant(name, 1) for name in ("request", "__idle__", "__overhead__", "")]
    nobodys = [tenant(name, 1, 1) for name in ("__idle__", "__overhead__")]

    found = [row[0] for row in tables.tenants([*named, *nobodys]).rows]

    assert found == ["request", "__idle__", "__overhead__", "(not reported)", "idle GPUs", "start-up of engines"]


def test_parts_of_the_split_have_the_words_of_the_pages() -> None:
    """Of overhead the bill says what it went to; aborted requests did not fail."""
    overhead = re.compile(r"if\(status IS NULL, '(.+?)', '(.+?)'\)")

    said, on_page = (overhead.findall(sql) for sql in (queries.text("cost_split"), query("cost_over_time").sql))

    assert said == on_page == [("start-up", "not answered in full")]
    assert [tables.PARTS[f"__overhead__ {what}"] for what in said[0]] == [
        "start-up of engines",
        "requests not answered in full",
    ]


def listed(model: str, key: str | None, note: str) -> dict[str, Any]:
    """A model beside a hosted one."""
    numbers = dict.fromkeys(("full_nusd", "list_nusd", "break_even_traffic", "busy", "break_even_busy"))
    return {"model": model, "nobody": 0, "list_key": key, "list_note": note, **numbers}


def test_models_without_a_list_price_are_no_hosted_ones() -> None:
    """A dash where one has none; no table where none has any; what is no model's is left out."""
    none, some = listed("a", None, "no list price"), listed("b", "hosted/b", "")
    nobodys = listed("__idle__", None, "") | {"nobody": 1}

    assert [row[:2] for row in list_prices([none, some, nobodys]).rows] == [("a", "–"), ("b", "hosted/b")]
    assert list_prices([none, nobodys]).rows == ()


def test_failed_requests_add_up() -> None:
    """Those that are not shown by name are one row."""
    rows = [
        {"status": "error", "model": f"m{n}", "tenant": "t", "cost_nusd": 10**9, "meter_mj": None, "carbon_ug": 0}
        for n in range(13)
    ]

    found = tables.FAILED.table(with_other_failures(rows, 10))

    assert [row[3] for row in found.rows[9:]] == ["$1.00", "$3.00"]
    assert found.rows[-1][:3] == ("others", "–", "–")
    assert found.caption == "The 10 most expensive, all others as one row"
    assert len(with_other_failures(rows[:10], 10)) == 10


def test_terminal_and_file_show_the_same_digits() -> None:
    """Every cell of every table stands in both."""
    made = page(report())
    text, file = shown(made), html(made)

    cells = [cell for section in made.sections for table in section.tables for row in table.rows for cell in row]
    assert len(cells) > 10
    assert all(cell in text and cell in file for cell in cells)


def test_labels_of_anybody_are_text() -> None:
    """Markup and control characters in a tenant's name reach neither the browser nor the terminal."""
    made = Page(EVIL, EVIL, [Headline(EVIL, EVIL)], [Section(EVIL, EVIL, [Table(EVIL, (EVIL,), ((EVIL,),))])], [EVIL])
    file = html(made)
    tags = Tags()
    tags.feed(file)

    assert "script" not in tags.seen
    assert tags.open == []
    assert "[31m" not in shown(Page("", "", [], [Section("", "", [Table("", ("x",), ((EVIL,),))])])).replace(
        "\\x1b[31m", ""
    )


def test_the_file_is_whole_and_asks_for_nothing() -> None:
    """Well-formed, without scripts and links; dark and print styles are in it."""
    hours = [{"hour_ms": hour * HOUR_MS, "part": "request", "cost_nusd": hour * 10**9} for hour in range(3)]
    file = html(page(report(hours=hours)))
    tags = Tags()
    tags.feed(file)

    assert (tags.open, tags.links) == ([], [])
    assert {"svg", "table", "caption", "h1", "h2"} <= tags.seen
    assert "prefers-color-scheme: dark" in file
    assert "@media print" in file


def test_bars_have_every_hour_also_one_without_costs() -> None:
    """A gap in time is a gap in the picture; the highest bar does not leave it."""
    rows = [
        {"hour_ms": 0, "part": "request", "cost_nusd": 10**9},
        {"hour_ms": 2 * HOUR_MS, "part": "__idle__", "cost_nusd": None},
    ]

    bars = tables.hours(rows)

    assert [(label, sum(amounts)) for label, amounts in bars.bars] == [("00:00", 1.0), ("01:00", 0.0), ("02:00", 0.0)]
    assert tables.hours([]).bars == ()


def test_bars_of_more_than_a_day_say_which_day() -> None:
    """The same hour comes again then."""
    rows = [{"hour_ms": hour * HOUR_MS, "part": "request", "cost_nusd": 10**9} for hour in (0, 24)]

    labels = [label for label, _ in tables.hours(rows).bars]

    assert (labels[0], labels[-1], len(set(labels))) == ("01-01 00:00", "01-02 00:00", 25)


def test_bars_without_any_amount_are_drawn() -> None:
    """Nothing to show is no division by nothing."""
    made = Page("", "", [], [Section("", bars=Bars("", "$", ("a",), (("x", (0.0,)),)))])

    assert "<svg" in html(made)
    assert "highest $1" in shown(made)


def test_power_limits_are_compared_within_a_model_and_gpu() -> None:
    """The lowest limit against the highest; one limit alone says nothing."""
    row = {"model": "m", "gpu_model": "g", "minutes": 1}
    low = {**row, "limit_w": 500.0, "j_per_token": 0.15, "generated_tokens_per_gpu_s": 95.0}
    high = {**row, "limit_w": 700.0, "j_per_token": 0.2, "generated_tokens_per_gpu_s": 100.0}

    assert tables.cap_said([low, high]) == (
        "m on g at 500 instead of 700 W: -25 % energy a token and -5 % generated tokens/s."
    )
    assert tables.cap_said([low]) == ""


def test_a_month_says_what_it_will_have_cost() -> None:
    """Between which bounds; not without history; tenants that spent nothing are left out."""
    dollars = {"forecast_nusd": 31 * 10**9, "forecast_low_nusd": 29 * 10**9, "forecast_high_nusd": 33 * 10**9}
    month: dict[str, Any] = {"tenant": None, "start_ms": 0, "end_ms": 31 * 24 * HOUR_MS, "spent_nusd": 7 * 10**9}
    young = {"tenant": "new", "spent_nusd": 10**9, "forecast_nusd": None}

    table = tables.months([month | dollars, month | young, month | dollars | {"tenant": "none", "spent_nusd": 0}])

    assert table.caption == "Calendar month from 1970-01-01 (UTC)"
    assert table.rows == (
        ("all costs", "$7.00", "$31.00 ($29.00 to $33.00)"),
        ("new", "$1.00", "– (3 days of history needed)"),
    )


def test_budgets_say_forecast_and_levels() -> None:
    """Without history there is no forecast; levels by what was spent and ahead of time."""
    row = {
        "budget": "b", "scope": "all", "of": None, "start_ms": 0, "end_ms": 86_400_000, "spent_nusd": 10**9,
        "amount_nusd": 2 * 10**9, "forecast_nusd": None, "exhausted_ms": None,
        "crossed": [{"share_ppm": 500_000, "kind": "soft", "ahead": False},
                    {"share_ppm": 1_000_000, "kind": "soft", "ahead": True}],
    }  # fmt: skip

    table = tables.budgets([row])

    assert table.rows == (
        ("b", "all", "1970-01-01 to 1970-01-02", "$1.00", "$2.00", "– (3 days of history needed)", "–",
         "50 % soft, 100 % soft by forecast"),
    )  # fmt: skip
    assert table.shares == (0.5,)


def test_what_is_not_joined_and_what_nobody_charges_is_a_warning() -> None:
    """Requests beside GPUs of no known engine, samples of GPUs at work, example prices; what is whole is none."""
    found = report()
    found["prices"]["example"] = True
    found["joins"] = [
        {"counted": "requests", "joined_with": "GPUs", "total": 713, "joined_events": 0, "lacks": ["h:8000"]},
        {"counted": "requests", "joined_with": "engine", "total": 713, "joined_events": 713, "lacks": []},
        {"counted": "GPU samples", "joined_with": "engine", "total": 200, "joined_events": 150, "lacks": []},
        {"counted": "GPU time", "joined_with": "price", "total": 5, "joined_events": 5, "lacks": []},
    ]

    before = list(page(report()).warnings)
    assert list(page(found).warnings)[len(before) :] == [
        "Rated with example prices, which nobody charges: name your file as `prices` of the configuration.",
        "713 requests stand beside GPUs without their engine (h:8000): they carry no cost.",
        "25.0 % of the samples of GPUs at work name no engine: `fleetpulse doctor` says why.",
    ]
