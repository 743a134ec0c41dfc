from __future__ import annotations

from pathlib import Path

import pytest

from producers.engines.facts import excerpt, facts_of_samples, promising
from producers.engines.mappings import ENGINES, START_TIME
from producers.engines.reading import detect, read
from producers.exposition import parse

SCRAPES = Path(__file__).resolve().parents[4] / "tests" / "data" / "engine_scrapes"
FILES = sorted(str(path.relative_to(SCRAPES)) for path in SCRAPES.rglob("*.prom"))


@pytest.mark.parametrize("name", FILES)
def test_an_excerpt_reads_as_the_page_does(name: str) -> None:
    """The same fields, start time and facts, from fewer lines."""
    text = (SCRAPES / name).read_text()
    page = parse(text).samples
    engine = detect(sample.name for sample in page)
    part = parse(excerpt(text, engine.kind)).samples

    assert read(part, engine) == read(page, engine)
    assert facts_of_samples(part) == facts_of_samples(page)
    assert len(part) <= len(page)


def test_excerpts_are_shorter_than_their_pages() -> None:
    """All of them together by far: that is what they are for."""
    pages, parts = 0, 0
    for name in FILES:
        text = (SCRAPES / name).read_text()
        samples = parse(text).samples
        pages += len(samples)
        parts += len(parse(excerpt(text, detect(sample.name for sample in samples).kind)).samples)

    assert 0 < parts < pages


@pytest.mark.parametrize("name", FILES)
def test_an_excerpt_has_every_line_of_the_engine(name: str) -> None:
    """Those that begin with one of its names, in their order; of engines that are others, none is left out either."""
    text = (SCRAPES / name).read_text()
    for engine in ENGINES:
        names = (*engine.names, START_TIME, "trtllm_model_config_info", "trtllm_parallel_config_info")
        lines = [line for line in text.split("\n") if line.startswith((*names, "vllm:cache_config_info"))]

        assert excerpt(text, engine.kind).split("\n")[: len(lines)] == (lines or [])
        assert excerpt(text, engine.kind).count("\n") == max(len(lines), 1)


def test_unreadable_lines_of_the_engine_stay_and_others_go() -> None:
    """They are counted still."""
    text = "vllm:num_requests_running{ 1\nother{ 2\nvllm:prompt_tokens_total 5\nvllm:prompt_tokens_total_more 6\n# x\n"

    assert excerpt(text, "vllm") == (
        "vllm:num_requests_running{ 1\nvllm:prompt_tokens_total 5\nvllm:prompt_tokens_total_more 6\n"
    )


@pytest.mark.parametrize("text", ["", "\n", "vllm:num_requests_running 1", "vllm:num_requests_running 1\nvllm:pro"])
def test_a_text_that_was_cut_ends_cut(text: str) -> None:
    """So that nobody takes it for whole."""
    assert excerpt(text, "vllm").endswith("\n") == text.endswith("\n")


def test_pages_of_engines_are_promising_and_others_are_not() -> None:
    """Every file here; not a page of something else."""
    assert [name for name in FILES if not promising((SCRAPES / name).read_text())] == []
    assert not promising('# TYPE container_cpu_seconds counter\ncontainer_cpu_seconds{id="/"} 1\n')
    assert not promising("")
