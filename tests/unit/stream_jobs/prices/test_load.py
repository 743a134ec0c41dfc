"""Price files: what is in them, and every mistake with its line."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_jobs.costs.bill import GpuMinutes, Holders, bills_of
from stream_jobs.costs.wide import ints
from stream_jobs.prices.amounts import KWH_MJ
from stream_jobs.prices.file import ENTRIES_MAX
from stream_jobs.prices.load import ABSENT, load, parse_prices
from stream_jobs.prices.model import UNITS, instant_of, instant_text
from stream_jobs.yaml_files.errors import FileError
from stream_jobs.yaml_files.tree import BYTES_MAX

NO_COMMITMENT = "* is no commitment; leave it out where it is the file's default_commitment"
INSTANT = "a day (2026-01-31) or a whole minute (2026-01-31T06:00:00Z)"


def problems(text: str) -> tuple[str, ...]:
    """The mistakes of a file, without its name."""
    with pytest.raises(FileError) as caught:
        parse_prices(text.encode(), "p.yaml")
    return tuple(line.removeprefix("p.yaml:") for line in caught.value.problems)


def gpu(*periods: str) -> str:
    """A file with one GPU; its periods stand in lines 4 and on."""
    return "gpu_hour:\n- gpu: H100\n  periods:\n" + "".join(f"  - {{{one}}}\n" for one in periods)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", ("1: the file is empty; it needs at least `gpu_hour:`",), id="empty"),
        pytest.param("a", ("1: the file must be a mapping (key: value)",), id="no mapping"),
        pytest.param(
            "gpu_hours: []", ("1: gpu_hours: unknown key; did you mean gpu_hour?",), id="unknown key"
        ),
        pytest.param("pue: []\npue: []", ("2: key 'pue' stands twice; it was at p.yaml:1",), id="key twice"),
        pytest.param(
            "pue: &a []\ngrid: *a", ("2: aliases (*name) are not allowed; write the value again",), id="alias"
        ),
        pytest.param("pue: ]", ("1: this is no YAML: did not find expected node content",), id="no YAML"),
        pytest.param("pue: 1.2", ("1: pue: must be a list",), id="no list"),
        pytest.param("gpu_hour:\n- {gpu: H100}", ("2: gpu_hour.periods: is missing",), id="no periods"),
        pytest.param(
            "gpu_hour:\n- {gpu: '-', periods: [{from: 2026-01-01, value: null}]}",
            ("2: gpu_hour.gpu: '-' has no word in it; write it like H100, or * for any",),
            id="GPU without a word",
        ),
        pytest.param(
            "default_commitment: '*'", (f"1: default_commitment: {NO_COMMITMENT}",), id="any commitment by default"
        ),
        pytest.param(
            "gpu_hour:\n- {gpu: H100, commitment: '*', periods: [{from: 2026-01-01, value: null}]}",
            (f"2: gpu_hour.commitment: {NO_COMMITMENT}",),
            id="any commitment",
        ),
        pytest.param(
            "gpu_hour:\n- {periods: [{from: 2026-01-01, value: null}]}", ("2: gpu_hour.gpu: is missing",), id="no GPU"
        ),
        pytest.param(
            gpu("from: 2026-01-01, value: 1 USD/GPU-hour, til: 1"),
            ("4: gpu_hour.periods.til: unknown key; did you mean until?",),
            id="unknown key of a period",
        ),
        pytest.param(gpu("value: null"), ("4: gpu_hour.periods.from: is missing",), id="no from"),
        pytest.param(gpu("from: 2026-01-01"), ("4: gpu_hour.periods.value: is missing",), id="no value"),
        pytest.param(
            gpu("from: 2026-13-01, value: null"),
            ("4: gpu_hour.periods.from: '2026-13-01' must be " + INSTANT,),
            id="no date",
        ),
        pytest.param(
            gpu("from: 2026-01-01T00:00:01Z, value: null"),
            ("4: gpu_hour.periods.from: '2026-01-01T00:00:01Z' must be " + INSTANT,),
            id="no whole minute",
        ),
        pytest.param(
            gpu("from: 2026-01-01, until: 2026-01-01, value: null"),
            ("4: gpu_hour.periods.until: must come after from; the end itself no longer belongs to the period",),
            id="empty period",
        ),
        pytest.param(
            gpu("from: 2026-01-01, until: 2026-03-01, value: null", "from: 2026-02-01, value: 2 USD/GPU-hour"),
            (
                "5: gpu_hour.periods: begins at 2026-02-01 and overlaps the period at p.yaml:4; "
                "end that one with `until: 2026-02-01` or remove one",
            ),
            id="overlap",
        ),
        pytest.param(
            gpu("from: 2026-01-01, value: 1 USD/GPU-hour", "from: 2026-01-01, value: 2 USD/GPU-hour"),
            (
                "5: gpu_hour.periods: begins at 2026-01-01 and overlaps the period at p.yaml:4; "
                "end that one with `until: 2026-01-01` or remove one",
            ),
            id="two from one day",
        ),
        pytest.param(
            gpu("from: 2026-01-01, until: 2026-02-01, value: null", "from: 2026-03-01, value: 2 USD/GPU-hour"),
            (
                "5: gpu_hour.periods: a gap before it, behind the period at p.yaml:4; close it or write "
                "{from: 2026-02-01, until: 2026-03-01, value: null}",
            ),
            id="gap",
        ),
        pytest.param(
            "gpu_hour:\n"
            "- {gpu: H100 80GB, periods: [{from: 2026-01-01, value: null}]}\n"
            "- {gpu: 80gb-h100, periods: [{from: 2027-01-01, value: null}]}\n",
            ("3: gpu_hour: the same stands already at p.yaml:2; put all periods into one entry",),
            id="one GPU in two entries",
        ),
        pytest.param(
            "pue: [{periods: [{from: 2026-01-01, value: 0.99}]}]",
            ("1: pue.periods.value: '0.99' must be 1 to 10: energy at the meter over that of the machines",),
            id="PUE below 1",
        ),
        pytest.param(
            "grid: [{periods: [{from: 2026-01-01, value: 400 g/kWh}]}]",
            ("1: grid.periods.value: '400 g/kWh' must be a number and its unit, like `380 gCO2e/kWh`",),
            id="unknown unit of emissions",
        ),
        pytest.param(
            "grid: [{periods: [{from: 2026-01-01, value: 1x gCO2e/kWh}]}]",
            ("1: grid.periods.value: '1x' is no number; write plain digits like 2.49, no exponent, comma or blank",),
            id="no number of emissions",
        ),
        pytest.param(
            "exchange_rates:\n- {currency: USD, periods: []}\n- {currency: EUR, periods: []}\n"
            "- {currency: CHF, periods: [{from: 2026-01-01, usd: 0}]}",
            (
                "2: exchange_rates.currency: 'USD' must be three capital letters like EUR, other than USD",
                "2: exchange_rates.periods: must be a list of `{from: 2026-01-01, value: ...}`, one or more",
                "3: exchange_rates.periods: must be a list of `{from: 2026-01-01, value: ...}`, one or more",
                "4: exchange_rates.periods.usd: '0' must be above 0: how many dollars one unit of the currency is",
            ),
            id="exchange rates",
        ),
        pytest.param(
            "exchange_rates:\n" + 2 * "- {currency: EUR, periods: [{from: 2026-01-01, usd: null}]}\n",
            ("3: exchange_rates: the same stands already at p.yaml:2; put all periods into one entry",),
            id="a currency twice",
        ),
        pytest.param(
            "exchange_rates: []\ngpu_hour:\n- {gpu: a, periods: [{from: 2026-01-01, value: 1 EUR/GPU-hour}, {from: x, "
            "value: 1 usd/GPU-hour}]}",
            (
                "3: gpu_hour.periods.value: currency 'EUR' has no exchange rate in this file; "
                "add it under exchange_rates",
                "3: gpu_hour.periods.from: 'x' must be " + INSTANT,
                "3: gpu_hour.periods.value: currency 'usd' is not known; valid: USD",
            ),
            id="currencies without a rate",
        ),
        pytest.param(
            "energy:\n- {periods: [{from: 2026-01-01, value: null, hours: [{hours: 00:00-01:00, value: 1 USD/kWh}]}]}",
            ("2: energy.periods.hours: value is null but has hours; give what holds outside them",),
            id="hours without a price outside",
        ),
        pytest.param(
            "exchange_rates:\n- currency: EUR\n  periods:\n  - {from: 2026-01-01, until: 2026-02-01, usd: 1.1}\n"
            "  - {from: 2026-03-01, usd: 1.1}",
            (
                "5: exchange_rates.periods: a gap before it, behind the period at p.yaml:4; close it or write "
                "{from: 2026-02-01, until: 2026-03-01, usd: null}",
            ),
            id="gap between exchange rates",
        ),
        pytest.param(
            "list_prices: {maps: a}",
            ("1: list_prices.map: is missing", "1: list_prices.maps: unknown key; did you mean map?"),
            id="map",
        ),
    ],
)  # fmt: skip
def test_each_mistake_has_its_line(text: str, expected: tuple[str, ...]) -> None:
    """And what to change."""
    assert problems(text) == expected


@pytest.mark.parametrize(
    ("hours", "expected"),
    [
        ("{hours: 7-22, value: 1 USD/kWh}", "hours: '7-22' must be like 07:00-22:00"),
        (
            "{hours: 22:00-06:00, value: 1 USD/kWh}",
            "hours: '22:00-06:00' must be like 07:00-22:00, to 24:00 at",
        ),
        (
            "{hours: 00:00-24:01, value: 1 USD/kWh}",
            "hours: '00:00-24:01' must be like 07:00-22:00, to 24:00 at",
        ),
        (
            "{hours: 07:00-07:00, value: 1 USD/kWh}",
            "hours: '07:00-07:00' must be like 07:00-22:00, to 24:00 at",
        ),
        ("{hours: 07:60-08:00, value: 1 USD/kWh}", "hours: '07:60-08:00' must be like 07:00-22:00"),
        ("{days: mo, hours: 00:00-01:00, value: 1 USD/kWh}", "days: 'mo' is not known; did you mean mon?"),
        ("{hours: 00:00-01:00, value: 1 USD/h}", "value: unit 'h' is not known here; write kWh"),
        ("{hours: 00:00-01:00}", "value: is missing"),
        (
            "{days: mon-wed, hours: 00:00-02:00, value: 1 USD/kWh}, {days: wed, hours: 01:59-03:00, value: 1 USD/kWh}",
            "hours: these hours overlap the band at p.yaml:2; a minute has one amount",
        ),
    ],
)
def test_hours_of_a_tariff_are_judged(hours: str, expected: str) -> None:
    """Each with its line."""
    text = f"energy:\n- {{periods: [{{from: 2026-01-01, value: 1 USD/kWh, hours: [{hours}]}}]}}"

    (wrong,) = problems(text)

    key = "periods" if expected.startswith("hours: these") else "periods.hours"
    assert wrong.startswith(f"2: energy.{key}.{expected}")


@pytest.mark.parametrize("zone", ["Europe/Berln", "../../etc/passwd", "/etc/passwd", "Europe", "''"])
def test_an_unknown_time_zone_is_refused(zone: str) -> None:
    """Whatever the table of zones does with the name."""
    (wrong,) = problems(f"energy:\n- {{timezone: {zone}, periods: [{{from: 2026-01-01, value: 1 USD/kWh}}]}}")

    assert wrong.startswith("2: energy.timezone: ")


EUR = "exchange_rates: [{currency: EUR, periods: [{from: 2026-01-01, usd: 1000}]}]\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "energy: [{periods: [{from: 2026-01-01, value: 922 USD/kWh}]}]",
            ("1: energy.periods.value: '922 USD/kWh' must be below 922 USD/kWh; check its unit",),
        ),
        (
            "energy:\n- periods:\n  - from: 2026-01-01\n    value: 0.1 USD/kWh\n    hours:\n"
            "    - {hours: 07:00-22:00, value: 999999 USD/kWh}",
            ("6: energy.periods.hours.value: '999999 USD/kWh' must be below 922 USD/kWh; check its unit",),
        ),
        (
            EUR + "energy: [{periods: [{from: 2026-01-01, value: 0.923 EUR/kWh}]}]",
            ("2: energy.periods.value: '0.923 EUR/kWh' must be below 922 USD/kWh; check its unit and exchange rate",),
        ),
        (
            "grid: [{periods: [{from: 2026-01-01, value: 922000 gCO2e/kWh}]}]",
            ("1: grid.periods.value: '922000 gCO2e/kWh' must be below 922000 gCO2e/kWh; check its unit",),
        ),
        (
            EUR + gpu("from: 2026-01-01, value: 1000 EUR/GPU-hour"),
            (
                "5: gpu_hour.periods.value: '1000 EUR/GPU-hour' must be below 1000000 USD/GPU-hour; "
                "check its unit and exchange rate",
            ),
        ),
        (
            EUR + "host_hour: [{periods: [{from: 2026-01-01, value: 1000 EUR/host-hour}]}]",
            (
                "2: host_hour.periods.value: '1000 EUR/host-hour' must be below 1000000 USD/host-hour; "
                "check its unit and exchange rate",
            ),
        ),
    ],
    ids=["energy", "hours", "by exchange rate", "grid", "GPU", "host"],
)
def test_an_amount_that_no_bill_can_hold_is_refused_where_it_stands(text: str, expected: tuple[str, ...]) -> None:
    """At the greatest PUE it would leave 64 bits, and a bill would be wrong without an error."""
    assert problems(text) == expected


def test_the_greatest_amounts_are_billed_exactly() -> None:
    """A kilowatt-hour at the greatest tariff, intensity and PUE."""
    text = "\n".join(
        f"{section}: [{{periods: [{{from: 2026-01-01, value: {value}}}]}}]"
        for section, value in {
            "energy": "921.999999999 USD/kWh",
            "grid": "921999.999999 gCO2e/kWh",
            "pue": "10",
        }.items()
    )
    prices, at_ms = parse_prices(text.encode(), "p.yaml"), instant_of("2026-02-01")
    found = [
        prices.energy_nusd_per_kwh(None, at_ms),
        prices.pue_micro(None, at_ms),
        prices.grid_ugco2e_per_kwh(None, at_ms),
    ]

    tariff, pue, grid = (ints([price.amount]) for price in found if price)
    gpus = GpuMinutes(ints([0]), ints([KWH_MJ]), ints([0]), ints([0]), tariff, pue, grid)
    bills = bills_of(gpus, Holders(ints([0]), ints([0]), ints([1])), 1)

    assert bills.energy_nusd.tolist() == [9_219_999_999_990]
    assert bills.carbon_ug.tolist() == [9_219_999_999_990]


def test_all_mistakes_come_together() -> None:
    """In the order of their lines."""
    wrong = problems(gpu("from: x, value: null", "from: 2026-01-01, value: -1 USD/GPU-hour") + "pue: 1\nfoo: 2\n")

    assert [line.partition(":")[0] for line in wrong] == ["4", "5", "6", "7"]


def test_a_file_beyond_the_limit_is_refused() -> None:
    """Before it is read."""
    assert problems("#" * (BYTES_MAX + 1)) == (
        f"1: the file is larger than {BYTES_MAX} bytes; split it or drop what is unused",
    )


def test_more_entries_than_the_limit_are_refused() -> None:
    """The list as a whole."""
    assert problems("pue: [" + "1," * (ENTRIES_MAX + 1) + "]") == (
        f"1: pue: has more than {ENTRIES_MAX} entries; split the file",
    )


def test_what_stays_unpriced_is_listed() -> None:
    """Absent sections, spans written as unknown, ends, currencies without a rate, prices of 0."""
    found = parse_prices(
        (
            "exchange_rates:\n- {currency: EUR, periods: [{from: 2026-02-01, usd: 1.1}]}\n"
            + gpu(
                "from: 2026-01-01, value: 1 EUR/GPU-hour",
                "from: 2026-03-01, value: null",
                "from: 2026-04-01, until: 2026-05-01, value: 0 USD/GPU-hour",
            )
        ).encode(),
        "p.yaml",
    )

    assert found.warnings == (
        *(f"p.yaml:1: {text}" for name, text in ABSENT.items() if name != "gpu_hour"),
        "p.yaml:6: gpu_hour H100 / on_demand: unpriced from 2026-01-01 until 2026-02-01 "
        "(1 EUR/GPU-hour without an exchange rate)",
        "p.yaml:7: gpu_hour H100 / on_demand: unpriced from 2026-03-01 until 2026-04-01 (null)",
        "p.yaml:8: gpu_hour H100 / on_demand: costs nothing; write null where the price is unknown",
        "p.yaml:8: gpu_hour H100 / on_demand: unpriced from 2026-05-01 on, where its last period ends",
    )  # fmt: skip


def test_a_gpu_that_bills_have_no_price_for_is_listed() -> None:
    """Bills use one commitment, and entries of another price nothing: said of GPUs that have no entry of that one."""
    period = "periods: [{from: 2026-01-01, value: 1 USD/GPU-hour}]"
    text = (
        f"gpu_hour:\n- {{gpu: H100, {period}}}\n- {{gpu: H100 80GB, commitment: 1_year, {period}}}\n"
        f"- {{gpu: L4, commitment: 1_year, {period}}}\n- {{gpu: L4, region: eu, {period}}}\n"
    )
    unpriced = "unpriced: bills use default_commitment ({}) alone, and this GPU has no entry of it"

    found, other = (
        [line for line in parse_prices((more + text).encode(), "p.yaml").warnings if "default_commitment" in line]
        for more in ("", "default_commitment: 1_year\n")
    )

    assert found == ["p.yaml:4: gpu_hour L4 / 1_year: " + unpriced.format("on_demand")]
    assert other == []


def test_every_section_has_its_warning() -> None:
    """A section without one would be no part of the bill."""
    assert set(ABSENT) == set(UNITS)


def test_a_map_that_is_not_there_is_an_error_where_it_is_named(tmp_path: Path) -> None:
    """The line of the price file, and the map's own error."""
    path = tmp_path / "p.yaml"
    path.write_text("pue: []\nlist_prices:\n  map: none.json\n")

    with pytest.raises(FileError) as caught:
        load(path)

    inner = f"{tmp_path / 'none.json'}:1: cannot be read: No such file or directory; check path and rights"
    assert caught.value.problems == (f"{path}:3: list_prices.map: {inner}",)


def test_an_alias_must_lead_to_a_model_of_the_map(tmp_path: Path) -> None:
    """The others stand."""
    (tmp_path / "m.json").write_text('{"a/b": {"input_cost_per_token": 1e-6}}')
    path = tmp_path / "p.yaml"
    path.write_text("list_prices: {map: m.json, aliases: {mine: a/b}}")

    assert load(path).aliases == {"mine": "a/b"}

    path.write_text("list_prices:\n  map: m.json\n  aliases:\n    mine: b\n")
    with pytest.raises(FileError, match=r"p.yaml:4: list_prices.aliases.mine: 'b' is no model of the map; write"):
        load(path)


def test_a_version_names_the_bytes_of_file_and_map(tmp_path: Path) -> None:
    """What a bill was rated with: the same for the same bytes wherever they lie, another for any other."""
    path, listed = tmp_path / "p.yaml", tmp_path / "m.json"
    path.write_text("list_prices: {map: m.json}")
    listed.write_text("{}")
    first, bare = load(path).version, parse_prices(b"list_prices: {map: m.json}", "x").version
    listed.write_text("{ }")
    other = load(path).version
    listed.write_text("{}")

    assert load(path).version == first
    assert len({first, bare, other, parse_prices(b"pue: []", "x").version}) == 4


@given(st.integers(0, 4_000_000_000_000 // 60_000))
def test_instants_are_written_as_they_are_read(minute: int) -> None:
    """Days stay days."""
    assert instant_of(instant_text(minute * 60_000)) == minute * 60_000


PIECES = st.sampled_from(
    ["gpu_hour:", "energy:", "\n- ", "\n  ", "periods: ", "[", "]", "{", "}", "from: 2026-01-01", ", ", "value: ",
     "1 EUR/kWh", "null", "&a ", "*a", "list_prices: ", "exchange_rates: ", "aliases: ", "hours: ", "\t", '"', "é"]
)  # fmt: skip


@settings(max_examples=150)
@given(st.lists(PIECES, max_size=14).map("".join) | st.text(max_size=30))
def test_any_text_gives_prices_or_lines(text: str) -> None:
    """Nothing else comes out of a file."""
    try:
        lines = parse_prices(text.encode(), "p.yaml").warnings
    except FileError as error:
        lines = error.problems

    assert lines
    assert all(line.startswith("p.yaml:") for line in lines)
