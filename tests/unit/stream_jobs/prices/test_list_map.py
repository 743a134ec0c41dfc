"""The map of hosted models: fields, exact numbers, mistakes with their line, the way out and back."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_jobs.prices.list_csv import read_csv
from stream_jobs.prices.list_map import (
    Field,
    Model,
    PriceMap,
    Rate,
    dollars,
    field_of,
    map_text,
    names_a_price,
    pusd_of,
    read_map,
    version_of,
)
from stream_jobs.prices.load import load_map
from stream_jobs.yaml_files.errors import FileError

MAP = Path(__file__).parents[3] / "data" / "price_map" / "model_prices.json"


def one(**fields: object) -> tuple[Model, tuple[str, ...]]:
    """A map of one model ``m``: its entry and what could not be read."""
    found = read_map(json.dumps({"m": fields}).encode(), "m.json")
    return found.models["m"], tuple(line.removeprefix("m.json:1: 'm': ") for line in found.unread)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("input_cost_per_token", Field("input")),
        ("input_cost_per_token_cache_hit", Field("cache_read")),
        ("output_cost_per_token_above_128k_tokens", Field("output", "standard", 128_000)),
        ("cache_creation_input_token_cost_above_1hr", Field("cache_write_1h")),
        ("cache_creation_input_token_cost_above_1hr_above_200k_tokens", Field("cache_write_1h", "standard", 200_000)),
        ("input_cost_per_token_above_200k_tokens_priority", Field("input", "priority", 200_000)),
        ("input_cost_per_token_batch_requests", Field("input", "batch")),
        ("output_cost_per_token_batches", Field("output", "batch")),
        ("cache_read_input_token_cost_flex", Field("cache_read", "flex")),
        ("output_cost_per_reasoning_token", Field("reasoning")),
        ("output_cost_per_second", Field("second")),
        ("input_cost_per_token_above_1hr", None),
        ("input_cost_per_image_token", None),
        ("input_cost_per_video_per_second_above_8s_interval", None),
        ("max_tokens", None),
    ],
)
def test_a_field_is_a_base_and_its_suffixes(name: str, expected: Field | None) -> None:
    """What is not wholly understood is not read."""
    assert field_of(name) == expected


def test_what_looks_like_a_price_is_listed() -> None:
    """The rest of an entry is not."""
    assert [names_a_price(name) for name in ("ocr_cost_per_page", "pricing", "max_tokens", "costume")] == [
        True,
        True,
        False,
        False,
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [("2.5e-06", 2_500_000), ("6.25e-09", 6_250), ("0.0", 0), ("0e-99", None), ("1e-12", 1), ("3", 3 * 10**12),
     ("0.000214286", 214_286_000), ("1e5", 10**17)],
)  # fmt: skip
def test_prices_are_exact(text: str, expected: int | None) -> None:
    """Pico-dollars of the text."""
    assert pusd_of(Decimal(text)) == (expected or 0)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (Decimal("1e-13"), "has more digits than a pico-dollar"),
        (Decimal("1e999999999"), "too large"),
        (Decimal("1e-999999999"), "too large, too small"),
        (Decimal("-1e-6"), "is negative"),
        (-1, "is negative"),
        (True, "is no number"),
        ([1], "is no number"),
        ("free", "is no number"),
        ("nan", "not finite"),
        ("Infinity", "not finite"),
    ],
)
def test_what_is_no_price_is_refused(given: object, said: str) -> None:
    """Quickly, too, for numbers of a billion digits."""
    with pytest.raises(ValueError, match=said):
        pusd_of(given)


def test_an_unreadable_price_stays_unknown_and_a_threshold_stays_one() -> None:
    """It never becomes 0, and long prompts never fall back to the price of short ones."""
    model, unread = one(
        input_cost_per_token=1e-6, input_cost_per_token_above_200k_tokens="ask", output_cost_per_token=None
    )

    assert model.rates == {
        Field("input"): Rate(1_000_000, "input_cost_per_token"),
        Field("input", "standard", 200_000): Rate(None, "input_cost_per_token_above_200k_tokens"),
        Field("output"): Rate(None, "output_cost_per_token"),
    }
    assert model.thresholds == (0, 200_000)
    assert unread == ("input_cost_per_token_above_200k_tokens = 'ask' is no number",)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [(1e-4, 1e-4, 10**8), (1e-4, 0.0, 10**8), (0.0, 1e-4, 10**8), (0.0, 0.0, 0), (1e-4, 2e-4, None)],
)
def test_a_second_counts_once(first: float, second: float, expected: int | None) -> None:
    """In input, in output, or in both; different prices are none."""
    model, unread = one(input_cost_per_second=first, output_cost_per_second=second)

    assert model.rates[Field("second")].pusd == expected
    assert bool(unread) == (expected is None)


def test_two_names_of_one_price_must_agree() -> None:
    """Else neither is used."""
    model, unread = one(cache_read_input_token_cost=1e-6, input_cost_per_token_cache_hit=2e-6)

    assert model.rates == {Field("cache_read"): Rate(None, "cache_read_input_token_cost")}
    assert unread == ("cache_read_input_token_cost and input_cost_per_token_cache_hit differ; neither is used",)


def test_a_table_of_tiers() -> None:
    """Prices by prompt length, and an end."""
    rows = [{"range": [10.0, 20], "input_cost_per_token": 2e-6}, {"range": [0, 10.0], "input_cost_per_token": 1e-6}]
    model, unread = one(tiered_pricing=rows, input_cost_per_token=9e-6, input_cost_per_request=1)

    assert model.rates == {
        Field("request"): Rate(10**12, "input_cost_per_request"),
        Field("input"): Rate(1_000_000, "tiered_pricing[0, 10].input_cost_per_token"),
        Field("input", "standard", 10): Rate(2_000_000, "tiered_pricing[10, 20].input_cost_per_token"),
    }
    assert (model.input_max, unread) == (20, ())


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ([], "it is no list"),
        ({}, "it is no list"),
        ([{"input_cost_per_token": 1}], "a row has no `range` of two token counts"),
        ([{"range": [0, 0.5]}], "a range is no pair of token counts"),
        ([{"range": [0, True]}], "a range is no pair of token counts"),
        ([{"range": [5, 5]}], "a range does not grow"),
        ([{"range": [1, 5]}], "its ranges overlap, leave a gap or do not begin at 0"),
        ([{"range": [0, 5]}, {"range": [6, 7]}], "its ranges overlap, leave a gap or do not begin at 0"),
        ([{"range": [0, 5]}, {"range": [4, 7]}], "its ranges overlap, leave a gap or do not begin at 0"),
    ],
)
def test_a_table_of_another_shape_prices_nothing(table: object, said: str) -> None:
    """And does not leave top-level token prices in its place."""
    model, unread = one(tiered_pricing=table, input_cost_per_token=1e-6)

    assert model.rates == {}
    assert unread == (f"tiered_pricing is not read: {said}", "has no price that can be read")


def test_an_entry_twice_or_of_another_shape_is_listed() -> None:
    """With its line; the first one counts; the entry that documents the format is no model."""
    text = b'{"a": {"input_cost_per_token": 1},\n"sample_spec": {"x": 1},\n\n"a": {},\n"b": 3}'
    found = read_map(text, "m.json")

    assert found.models == {
        "a": Model("a", "m.json:1", rates={Field("input"): Rate(10**12, "input_cost_per_token")}),
        "b": Model("b", "m.json:5"),
    }
    assert found.unread == (
        "m.json:4: 'a': stands already at m.json:1; the first one counts",
        "m.json:5: 'b': is no object of prices; it has none now",
    )


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (b"", 1),
        (b"[]", 1),
        (b'{"a"}', 1),
        (b'{"a": 1,\n}', 2),
        (b'{"a": 1\n', 2),
        (b'{"a":\n', 2),
        (b"{\n3: 1}", 2),
        (b'{"a": NaN}', 1),
        (b'{\n"a\xff": 1}', 2),
        (b'{"a": ' + b"[" * 100_000, 1),
        (b'{"a": ' + b"1" * 5_000 + b"}", 1),
    ],
    ids=["empty", "list", "no value", "last comma", "no end", "end", "number as key", "NaN", "bytes", "deep", "long"],
)  # fmt: skip
def test_what_is_no_map_is_refused_with_its_line(text: bytes, line: int) -> None:
    """As a whole, never with a traceback."""
    with pytest.raises(FileError) as caught:
        read_map(text, "m.json")

    assert caught.value.problems[0].startswith(f"m.json:{line}: this is no ")


def test_models_have_the_lines_of_their_keys() -> None:
    """Whatever the values before them hold; a key that is written with an escape has the line of the one before."""
    text = b'\xef\xbb\xbf{\n\n"a": {"mode": "b",\n "c": 0.10},\n"b":\n{}, "\\u0064": {}, "e": {}}'

    assert {key: model.at for key, model in read_map(text, "m").models.items()} == {
        "a": "m:3", "b": "m:5", "d": "m:5", "e": "m:6",
    }  # fmt: skip
    assert read_map(b" {} ", "m").models == {}


@settings(max_examples=150)
@given(st.binary(max_size=30) | st.text('{}[]":,1e-. an\n', max_size=40).map(str.encode))
def test_any_bytes_are_a_map_or_a_line(data: bytes) -> None:
    """The same keys as the standard reader finds in an object."""
    try:
        found = read_map(data, "m")
    except FileError as error:
        line = int(error.problems[0].split(":")[1])
        assert 1 <= line <= data.count(b"\n") + 1
    else:
        assert set(found.models) == set(json.loads(data.decode("utf-8-sig")))
        assert all(1 <= int(one.at.removeprefix("m:")) <= data.count(b"\n") + 1 for one in found.models.values())


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("gpt-4o", "gpt-4o"),
        ("openai/gpt-4o", "gpt-4o"),
        ("azure/gpt-4o", "azure/gpt-4o"),
        ("gemini/gemini-2.0-flash-exp", "gemini/gemini-2.0-flash-exp"),
        ("groq/gpt-4o", None),
        ("GPT-4o", "gpt-4o"),
        ("together_ai/baai/bge-base-en-v1.5", "together_ai/baai/bge-base-en-v1.5"),
        ("together_ai/Baai/bge-base-en-v1.5", None),
        ("gpt-4o-2099-01-01", None),
        ("mine", "groq/llama-3.1-8b-instant"),
        ("sample_spec", None),
        ("", None),
    ],
)
def test_models_are_found_by_rule(model: str, expected: str | None) -> None:
    """Never another version, host or region; never one of two."""
    entry = read_map(MAP.read_bytes(), "m.json").find(model, {"mine": "groq/llama-3.1-8b-instant"})

    assert (entry and entry.key) == expected


def test_a_map_is_written_as_it_was_read() -> None:
    """Every rate, exactly; also those that could not be read."""
    found = load_map(MAP)
    again = read_map(map_text(found).encode(), "again")

    assert len(found.models) == 248
    assert {key: (m.rates, m.input_max, m.mode) for key, m in again.models.items()} == {
        key: (m.rates, m.input_max, m.mode) for key, m in found.models.items()
    }


@given(st.integers(0, 10**15))
def test_dollars_are_written_exactly(pusd: int) -> None:
    """To the pico-dollar."""
    assert Decimal(dollars(pusd)) * 10**12 == pusd


CSV = b"""\xef\xbb\xbfModel,provider,tier,above_tokens,input,output,cache_write_1h
a/b,a,,,2.50,10,6
a/b,a,batch,200000,1.25,cheap,

c,,,,0.0000001,,1.000000000000000000000000000000000000001
d,,,,1e999999999,nan,
"""


def test_a_table_is_read_per_million() -> None:
    """As the map's own fields, so that it can be written as one."""
    found = read_csv(CSV, "t.csv")

    assert found.models["a/b"].rates == {
        Field("input"): Rate(2_500_000, "input_cost_per_token"),
        Field("output"): Rate(10_000_000, "output_cost_per_token"),
        Field("cache_write_1h"): Rate(6_000_000, "cache_creation_input_token_cost_above_1hr"),
        Field("input", "batch", 200_000): Rate(1_250_000, "input_cost_per_token_above_200k_tokens_batches"),
        Field("output", "batch", 200_000): Rate(None, "output_cost_per_token_above_200k_tokens_batches"),
    }
    assert {rate.field: rate.pusd for key in ("c", "d") for rate in found.models[key].rates.values()} == {
        "input_cost_per_token": None,
        "output_cost_per_token": None,
        "cache_creation_input_token_cost_above_1hr": None,
    }
    unread = [re.fullmatch(r"t.csv:(\d+): '(.+)': (\w+) = '(.+)' (is no|has more)?.*", line) for line in found.unread]
    assert [one and one.groups() for one in unread] == [
        ("3", "a/b", "output_cost_per_token_above_200k_tokens_batches", "cheap", "is no"),
        ("5", "c", "input_cost_per_token", "1E-13", "has more"),
        ("5", "c", "cache_creation_input_token_cost_above_1hr", f"0.000001{'0' * 38}1", "has more"),
        ("6", "d", "input_cost_per_token", "1e999999999", "is no"),
        ("6", "d", "output_cost_per_token", "NaN", "is no"),
    ]
    assert read_map(map_text(found).encode(), "again").models["a/b"].rates == found.models["a/b"].rates


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("a,batch", "2 cells, but the header has 4; the line is left out"),
        (",,0,1", "needs a model, a tier"),
        ("a,cheap,0,1", "needs a model, a tier"),
        ("a,,-1,1", "needs a model, a tier"),
        ("a,,1500,1", "above_tokens = 1500 must be a multiple of 1000; the line is left out"),
    ],
)
def test_a_line_that_cannot_be_read_is_left_out_and_listed(row: str, said: str) -> None:
    """With its number."""
    found = read_csv(f"model,tier,above_tokens,input\n{row}\n".encode(), "t.csv")

    assert found.models == {}
    assert found.unread[0].startswith(f"t.csv:2: {said}")


def test_a_price_twice_is_listed() -> None:
    """The first one counts."""
    found = read_csv(b"model,input\na,1\na,2\n", "t.csv")

    assert found == PriceMap(
        "t.csv",
        {"a": Model("a", "t.csv:2", rates={Field("input"): Rate(1_000_000, "input_cost_per_token")})},
        ("t.csv:3: 'a': input stands twice; the first one counts",),
        version_of(b"model,input\na,1\na,2\n"),
    )


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", ("t.csv:1: there is no column `model`; write one header line, like model,provider,input",)),
        (
            b"model,inputs,output,output",
            (
                "t.csv:1: column 'inputs' is not known; did you mean input?",
                "t.csv:1: column 'output' stands twice",
            ),
        ),
        (b"model\n\xff", ("t.csv:2: this is no UTF-8 at byte 6; save the file as UTF-8",)),
    ],
)
def test_a_header_that_says_something_else_is_refused(data: bytes, expected: tuple[str, ...]) -> None:
    """All its mistakes at once."""
    with pytest.raises(FileError) as caught:
        read_csv(data, "t.csv")

    assert caught.value.problems == expected
