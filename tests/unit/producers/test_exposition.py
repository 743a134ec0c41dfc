from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from producers.exposition import BadLine, Sample, Scrape, ScrapeLimits, parse

SCRAPES = Path(__file__).parents[2] / "data" / "engine_scrapes"
NAMES = st.from_regex(r"[a-zA-Z_:][a-zA-Z0-9_:]{0,8}", fullmatch=True)
LABELS = st.from_regex(r"[a-z][a-z0-9_]{0,6}", fullmatch=True)
VALUES = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


def by_library(text: str) -> list[Sample]:
    """The samples as the reference reader has them; without comments, which would change names of counters."""
    bare = "\n".join(line for line in text.split("\n") if not line.startswith("#"))
    return [
        Sample(each.name, each.labels, each.value)
        for family in text_string_to_metric_families(bare)
        for each in family.samples
    ]


@pytest.mark.parametrize("path", sorted(SCRAPES.rglob("*.prom")), ids=lambda path: path.stem)
def test_real_pages_are_read_as_the_library_reads_them(path: Path) -> None:
    """Every sample, in order, and no bad line."""
    text = path.read_text()
    read = parse(text)

    assert [repr(sample) for sample in read.samples] == [repr(sample) for sample in by_library(text)]  # NaN is NaN
    assert read.bad == ()


@pytest.mark.parametrize(
    ("line", "sample"),
    [
        ("up 1", Sample("up", {}, 1)),
        ("up\t1", Sample("up", {}, 1)),
        ("a:b{} 0.5", Sample("a:b", {}, 0.5)),
        ('a { x = "1" , y="2", } 3 1700000000000', Sample("a", {"x": "1", "y": "2"}, 3)),
        ('a{x="}"} 1', Sample("a", {"x": "}"}, 1)),
        (r'a{x="say \"hi\"\n\\n \d"} 1', Sample("a", {"x": 'say "hi"\n\\n \\d'}, 1)),
        ('a{x=""}-1e-3', Sample("a", {"x": ""}, -0.001)),
        ("big 9223372036854775794", Sample("big", {}, 9_223_372_036_854_775_794)),
        ("a +Inf", Sample("a", {}, math.inf)),
        ("a -Inf", Sample("a", {}, -math.inf)),
        ('a{x="\u2028"} 1.\r', Sample("a", {"x": "\u2028"}, 1.0)),
    ],
)
def test_a_line_is_a_sample(line: str, sample: Sample) -> None:
    """All that the format allows; whole numbers keep their last digit."""
    assert parse(line) == Scrape((sample,), ())


def test_not_a_number_is_a_value() -> None:
    """What it means is for the reader of that name to say."""
    (sample,) = parse("a NaN").samples

    assert math.isnan(sample.value)


@pytest.mark.parametrize(
    "line",
    ['a{x="1"} 5 # {trace_id="k"} 1', 'a{x="1"} 5 # {trace_id="k"} 0.67 1520879607.789', 'a{x="1"} 5 1700000000.123',
     'a{x="1"} 5 1700000000.123 # {} 1'],
)  # fmt: skip
def test_open_metrics_have_exemplars_and_seconds(line: str) -> None:
    """As a target writes that was asked for the other format."""
    assert parse(line) == Scrape((Sample("a", {"x": "1"}, 5),), ())


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("1a 1", "name"),
        ('{"a.b"} 1', "name"),
        ('a{gpu="0",...,modelName="L40S",...} 1', "labels"),
        ('a{x="1" 1', "labels"),
        ('a{x="1"y="2"} 1', "labels"),
        ("a{x=1} 1", "labels"),
        ('a{x="1",,} 1', "labels"),
        ('a{x="1",x="2"} 1', "duplicate_label"),
        ("a", "value"),
        ("inf", "value"),
        ("a1", "value"),
        ("a one", "value"),
        ("a 1_000", "value"),
        ("a \u0663", "value"),
        ("a 0x1p3", "value"),
        ("a 1 soon", "timestamp"),
        ("a 1 2 3", "timestamp"),
    ],
)
def test_a_line_that_is_no_sample_says_why(line: str, reason: str) -> None:
    """And costs itself only."""
    assert parse(f"before 1\n{line}\nafter 2\n") == Scrape(
        (Sample("before", {}, 1), Sample("after", {}, 2)),
        (BadLine(2, reason),),  # type: ignore[arg-type]
    )


@pytest.mark.parametrize("text", ["", "\n\n", "# HELP a b\n# TYPE a counter\n#\n", " \t\n"])
def test_nothing_is_no_error(text: str) -> None:
    """Comments and blank lines."""
    assert parse(text) == Scrape((), ())


def test_limits_end_the_reading_and_say_so() -> None:
    """A cut page loses its last line: half a number is a wrong number."""
    text = "a 1\nb 2\nc 345\n"

    assert parse(text, ScrapeLimits(chars_max=11)) == Scrape(
        (Sample("a", {}, 1), Sample("b", {}, 2)), (BadLine(3, "too_large"),)
    )
    assert parse(text, ScrapeLimits(samples_max=1)) == Scrape((Sample("a", {}, 1),), (BadLine(2, "too_many"),))
    assert parse("?\n" * 9, ScrapeLimits(bad_max=1)).bad == (BadLine(1, "name"), BadLine(2, "too_many"))
    assert parse("abc 1\nb 2", ScrapeLimits(line_chars_max=4)) == Scrape(
        (Sample("b", {}, 2),), (BadLine(1, "line_too_long"),)
    )


@given(st.lists(st.tuples(NAMES, st.dictionaries(LABELS, VALUES, max_size=3), st.integers(0, 2**60)), max_size=5))
def test_what_is_written_is_read(samples: list[tuple[str, dict[str, str], int]]) -> None:
    """Any label text, escaped as the format wants, and as the library reads it."""
    text = ""
    for name, labels, value in samples:
        pairs = [f'{key}="{_escaped(each)}"' for key, each in labels.items()]
        text += f"{name}{{{','.join(pairs)}}} {value}\n"

    assert parse(text) == Scrape(tuple(Sample(*each) for each in samples), ())


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


@given(st.text(max_size=60))
def test_any_text_is_read_without_an_error(text: str) -> None:
    """A page from anywhere; each line that is neither blank nor comment is a sample or a bad line."""
    lines = [line.strip(" \t\r") for line in text.split("\n")]
    read = parse(text)

    assert len(read.samples) + len(read.bad) == sum(1 for line in lines if line and line[0] != "#")
