"""The command ``prices`` and its page: exit codes, what is said, JSON for programs, examples that are true.

Covers fleetpulse.commands.prices
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from fleetpulse.cli import app
from fleetpulse.report import EXAMPLE_PRICES
from schemas.errors import ConfigError, FleetpulseError
from stream_jobs.costs.bill import GpuMinutes, Holders, bills_of
from stream_jobs.prices.file import PriceFile
from stream_jobs.prices.list_csv import read_csv
from stream_jobs.prices.list_map import BASES, SERVICE_TIERS, TOKEN_KINDS
from stream_jobs.prices.load import load, parse_prices
from stream_jobs.prices.model import UNITS
from stream_jobs.yaml_files.errors import FileError

RUNNER = CliRunner()
WIDE = {"COLUMNS": "200"}
ROOT = Path(__file__).parents[4]
PAGE = (ROOT / "docs" / "how-to" / "prices.md").read_text()
BAD = "pue: 1\ngpu_hours: []\n"
MAP = '{"a": {"input_cost_per_token": 1e-6, "max_tokens": 5}, "b": {"ocr_cost": 1}}'


def blocks(language: str) -> list[str]:
    """The code blocks of the page."""
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def test_the_shipped_example_leaves_nothing_open() -> None:
    """Exit 0, every price in the table, no warning."""
    result = RUNNER.invoke(app, ["prices", "check", str(EXAMPLE_PRICES)])
    programs = json.loads(RUNNER.invoke(app, ["prices", "check", str(EXAMPLE_PRICES), "--json"]).stdout)

    assert (result.exit_code, result.stderr) == (0, "")
    assert "20 prices, all valid" in result.stdout
    assert (len(programs["prices"]), programs["warnings"]) == (20, [])
    assert "H100 / eu-central-1 / on_demand" in {one["for"] for one in programs["prices"]}


def test_a_bad_file_exits_with_one_and_every_line(tmp_path: Path) -> None:
    """On stderr for people, in a list for programs."""
    path = tmp_path / "bad.yaml"
    path.write_text(BAD)
    wrong = [f"{path}:1: pue: must be a list", f"{path}:2: gpu_hours: unknown key; did you mean gpu_hour?"]

    people = RUNNER.invoke(app, ["prices", "check", str(path)])
    programs = RUNNER.invoke(app, ["prices", "check", str(path), "--json"])

    assert (people.exit_code, people.stdout) == (1, "")
    assert people.stderr.splitlines() == [*wrong, "2 mistakes; no price of it is used"]
    assert programs.exit_code == 1
    assert json.loads(programs.stdout) == {"valid": False, "problems": wrong}


def test_a_good_file_as_json(tmp_path: Path) -> None:
    """Amounts in their tiny unit, with line and source; what stays open beside them."""
    path = tmp_path / "good.yaml"
    path.write_text("pue:\n- {region: eu, source: meter, periods: [{from: 2026-01-01, value: 1.25}]}\n")
    result = RUNNER.invoke(app, ["prices", "check", str(path), "--json"])
    found = json.loads(result.stdout)

    assert result.exit_code == 0
    assert found["prices"] == [
        {
            "section": "pue",
            "for": "eu",
            "from": "2026-01-01",
            "until": None,
            "text": "1.25",
            "amount": 1_250_000,
            "unit": "millionths",
            "line": f"{path}:2",
            "source": "meter",
        }
    ]
    assert [line.partition(":1: ")[2].partition(":")[0] for line in found["warnings"]] == [
        "no gpu_hour",
        "no host_hour",
        "no energy",
        "no grid",
    ]
    assert (found["valid"], found["problems"], found["list_prices"]) == (True, [], None)


def test_what_holds_on_a_day() -> None:
    """One price of each entry, in force then; hours of the day are those of the place."""
    result = RUNNER.invoke(app, ["prices", "show", "--at", "2025-06-02T06:00:00Z", "--json"])
    shown = {one["for"]: one["amount"] for one in json.loads(result.stdout)["prices"] if one["section"] == "energy"}

    assert result.exit_code == 0
    assert shown == {"*": 90_000_000, "eu-central-1": 197_600_000}


def test_prices_of_one_gpu() -> None:
    """By a word of its name, or by the whole name."""
    short, whole = (
        RUNNER.invoke(app, ["prices", "show", "--at", "2026-02-01", "--gpu", name, "--json"])
        for name in ("A100", "NVIDIA A100-SXM4-40GB")
    )

    assert [one["amount"] for one in json.loads(short.stdout)["prices"]] == [1_790_000_000, 1_290_000_000]
    assert [one["amount"] for one in json.loads(whole.stdout)["prices"]] == [1_290_000_000]


@pytest.mark.parametrize(
    ("region", "commitment", "amounts"),
    [
        ("eu-central-1", [], [3_627_000_000]),
        ("us", [], [2_790_000_000]),
        ("us", ["--commitment", "1_year"], [2_100_000_000]),
    ],
)
def test_the_price_that_a_machine_gets(region: str, commitment: list[str], amounts: list[int]) -> None:
    """With a region one price decides."""
    options = ["--at", "2026-02-01", "--gpu", "NVIDIA H100 80GB HBM3", "--region", region, *commitment]
    result = RUNNER.invoke(app, ["prices", "show", *options, "--json"])

    assert [one["amount"] for one in json.loads(result.stdout)["prices"]] == amounts


def test_some_words_of_a_gpu_show_every_price_that_it_may_get_there(tmp_path: Path) -> None:
    """Which of them a machine gets its full product name decides."""
    path = tmp_path / "p.yaml"
    path.write_text(
        "gpu_hour:\n"
        "- {gpu: '*', periods: [{from: 2026-01-01, value: 9 USD/GPU-hour}]}\n"
        "- {gpu: H100, periods: [{from: 2026-01-01, value: 3 USD/GPU-hour}]}\n"
        "- {gpu: H100 80GB, region: eu, periods: [{from: 2026-01-01, value: 2 USD/GPU-hour}]}\n"
        "- {gpu: H100 80GB, region: us, periods: [{from: 2026-01-01, value: 1 USD/GPU-hour}]}\n"
    )
    options = ["--at", "2026-02-01", "--region", "eu", "--file", str(path), "--json"]

    results = [
        RUNNER.invoke(app, ["prices", "show", "--gpu", gpu, *options])
        for gpu in ("H100", "NVIDIA H100 80GB HBM3", "NVIDIA H100 PCIe")
    ]

    assert [[one["for"] for one in json.loads(result.stdout)["prices"]] for result in results] == [
        ["H100 / on_demand", "H100 80GB / eu / on_demand"],
        ["H100 80GB / eu / on_demand"],
        ["H100 / on_demand"],
    ]


@pytest.mark.parametrize(
    "options", [["--region", "eu-central-1"], ["--gpu", "H100", "--commitment", "1_year"]], ids=["region", "commitment"]
)
def test_an_option_that_would_choose_nothing_is_refused(options: list[str]) -> None:
    """Prices of all places would pass for those of one."""
    result = RUNNER.invoke(app, ["prices", "show", "--at", "2026-02-01", *options])

    assert isinstance(result.exception, ConfigError)
    assert f"{options[-2]} = '{options[-1]}': goes with --gpu" in str(result.exception)


def test_a_day_without_prices_exits_with_one() -> None:
    """Said on stderr."""
    result = RUNNER.invoke(app, ["prices", "show", "--at", "1999-01-01"])

    assert (result.exit_code, result.stdout, result.stderr) == (1, "", "no price holds then\n")


def test_a_file_may_come_from_the_environment(tmp_path: Path) -> None:
    """``FLEETPULSE_PRICES``."""
    path = tmp_path / "mine.yaml"
    path.write_text("pue: [{periods: [{from: 2026-01-01, value: 2}]}]")
    result = RUNNER.invoke(
        app, ["prices", "show", "--at", "2026-01-01", "--json"], env={"FLEETPULSE_PRICES": str(path)}
    )

    assert [one["amount"] for one in json.loads(result.stdout)["prices"]] == [2_000_000]


def test_a_file_may_come_from_the_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The key `prices`; an option is before it."""
    mine, other = tmp_path / "mine.yaml", tmp_path / "other.yaml"
    mine.write_text("pue: [{periods: [{from: 2026-01-01, value: 2}]}]")
    other.write_text("pue: [{periods: [{from: 2026-01-01, value: 3}]}]")
    (tmp_path / "fleetpulse.toml").write_text(f'prices = "{mine}"')
    monkeypatch.chdir(tmp_path)
    words = ["prices", "show", "--at", "2026-01-01", "--json"]

    found = [json.loads(RUNNER.invoke(app, [*words, *more]).stdout) for more in ([], ["--file", str(other)])]

    assert [[one["amount"] for one in each["prices"]] for each in found] == [[2_000_000], [3_000_000]]


def test_examples_say_so_in_their_version(tmp_path: Path) -> None:
    """A copy of the example too, until the line is deleted: every bill rated by it has that version."""
    text, copy = EXAMPLE_PRICES.read_text(), tmp_path / "copy.yaml"
    (tmp_path / "list_prices.json").write_bytes((EXAMPLE_PRICES.parent / "list_prices.json").read_bytes())
    copy.write_text(text)
    own = tmp_path / "own.yaml"
    own.write_text("".join(line for line in text.splitlines(keepends=True) if not line.startswith("example:")))

    assert load(EXAMPLE_PRICES).version == load(copy).version
    assert load(copy).version.startswith("example-")
    assert not load(own).version.startswith("example-")


def test_nothing_is_rated_again_with_example_prices() -> None:
    """Not by default: a price file must be named."""
    result = RUNNER.invoke(app, ["rerate", "--from", "2026-01-01", "--to", "2026-01-02"])

    assert isinstance(result.exception, ConfigError)
    assert "must name the price file to rate with" in str(result.exception)


def test_a_wrong_day_is_wrong_use() -> None:
    """Not a guess at what was meant."""
    result = RUNNER.invoke(app, ["prices", "show", "--at", "yesterday"])

    assert isinstance(result.exception, ConfigError)


def test_list_prices_of_a_model() -> None:
    """By its own name or an alias of the file; per million tokens, exactly."""
    result = RUNNER.invoke(app, ["prices", "show", "--model", "llama-3.1-8b-instruct", "--json"])
    found = json.loads(result.stdout)

    assert found["model"] == "groq/llama-3.1-8b-instant"
    assert [(one["kind"], one["usd"], one["per"]) for one in found["rates"]] == [
        ("input", "0.05", "million tokens"),
        ("output", "0.08", "million tokens"),
    ]


def test_an_unknown_model_is_told_with_the_nearest() -> None:
    """Exit 1: it is data that lacks, not use."""
    result = RUNNER.invoke(app, ["prices", "show", "--model", "gpt-4oo"])

    assert str(result.exception) == "no list price for 'gpt-4oo'; did you mean gpt-4o?"
    assert isinstance(result.exception, FleetpulseError)
    assert not isinstance(result.exception, ConfigError)


def test_a_map_is_taken_over_and_what_is_not_is_told(tmp_path: Path) -> None:
    """The written one is read again; nothing is written over unless requested."""
    source, out = tmp_path / "map.json", tmp_path / "out.json"
    source.write_text(MAP)
    arguments = ["prices", "import", str(source), "-o", str(out)]
    first = RUNNER.invoke(app, [*arguments, "--json"])
    again, forced = RUNNER.invoke(app, arguments), RUNNER.invoke(app, [*arguments, "--force"])

    assert (first.exit_code, json.loads(first.stdout)) == (
        0,
        {
            "models": 2,
            "priced": 1,
            "written": str(out),
            "unread": [f"{source}:1: 'b': ocr_cost is not read", f"{source}:1: 'b': has no price that can be read"],
        },
    )
    assert out.read_text() == '{\n"a": {"input_cost_per_token": 0.000001},\n"b": {}\n}\n'
    assert isinstance(again.exception, ConfigError)
    assert forced.exit_code == 0
    assert f"1 of 2 models have prices; written to {out}" in forced.stderr.replace("\n", "")


def test_a_table_is_taken_over(tmp_path: Path) -> None:
    """By the end of its name."""
    source, out = tmp_path / "table.csv", tmp_path / "out.json"
    source.write_text("model,input\na,1.5\n")
    result = RUNNER.invoke(app, ["prices", "import", str(source), "-o", str(out)])

    assert result.exit_code == 0
    assert out.read_text() == '{\n"a": {"input_cost_per_token": 0.0000015}\n}\n'


@pytest.mark.parametrize("text", ["{}", "[", '{"a": {}}'])
def test_nothing_is_written_where_nothing_is_priced(tmp_path: Path, text: str) -> None:
    """Exit 1."""
    source, out = tmp_path / "map.json", tmp_path / "out.json"
    source.write_text(text)
    result = RUNNER.invoke(app, ["prices", "import", str(source), "-o", str(out)])

    assert result.exit_code == 1
    assert not out.exists()


def test_the_file_on_the_page_is_valid() -> None:
    """And leaves nothing unpriced."""
    assert parse_prices(blocks("yaml")[0].encode(), "page.yaml").warnings == ()


def test_the_mistakes_on_the_page_are_those_that_are_found() -> None:
    """Word for word."""
    with pytest.raises(FileError) as caught:
        parse_prices(blocks("yaml")[1].encode(), "bad.yaml")

    assert "\n".join(caught.value.problems) + "\n" == blocks("text")[0]


def test_the_tables_on_the_page_are_complete() -> None:
    """Sections, what their entries are for and in which unit; kinds and tiers of list prices; the table of a host."""
    selectors = {"gpu_hour": "gpu, region, commitment", "host_hour": "gpu, region"}
    sections = [name for name in PriceFile.model_fields if name in UNITS]

    assert sections == list(UNITS)
    for name in sections:
        assert f"| `{name}` | {selectors.get(name, 'region')} |" in PAGE
        assert f"| {UNITS[name]} |" in PAGE
    assert f"| tokens | {', '.join(f'`{kind}`' for kind in TOKEN_KINDS)} |" in PAGE
    others = dict.fromkeys(kind for kind in BASES.values() if kind not in TOKEN_KINDS)
    assert f"| other | {', '.join(f'`{kind}`' for kind in others)} |" in PAGE
    assert f"| service tiers | {', '.join(f'`{tier}`' for tier in SERVICE_TIERS)} |" in PAGE
    assert read_csv(blocks("text")[1].encode(), "page.csv").unread == ()


def test_the_bill_on_the_page_is_right() -> None:
    """The same numbers as in the shipped example's prices, of each GPU and of an eighth of the host."""
    gpus = GpuMinutes(*(np.full(8, each) for each in (
        60_000, 11_700_000, 2_790_000_000, 150_000_000, 90_000_000, 1_250_000, 400_000_000,
    )))  # fmt: skip
    bills = bills_of(gpus, Holders(np.arange(8), np.zeros(8, dtype=np.int64), np.ones(8, dtype=np.int64)), 1)

    assert f"{bills.total_nusd[0] / 10**9} USD" in PAGE


def test_every_region_of_the_example_has_a_source() -> None:
    """A report shows where each price comes from."""
    assert [one.at for one in load(EXAMPLE_PRICES).entries if not one.source] == []


@pytest.mark.parametrize("command", ["check", "show", "import"])
def test_help_has_an_example(command: str) -> None:
    """One that can be copied."""
    result = RUNNER.invoke(app, ["prices", command, "--help"], env=WIDE)

    assert f"Example: fleetpulse prices {command} " in result.stdout
