from __future__ import annotations

from lab.bench import agent_engine
from producers.engines.reading import read
from producers.exposition import parse


def test_the_page_is_one_of_vllms_length() -> None:
    """Every line is readable, and the fields are those of the requests that ended."""
    text = agent_engine.page(5).decode()

    scrape = parse(text)
    reading = read(scrape.samples)
    fields = reading.fields[agent_engine.MODEL, None]

    assert text.count("\n") > 1_000
    assert not scrape.bad
    assert (reading.kind, dict(reading.wrong)) == ("vllm", {})
    assert {name: sum(value or 0 for value in series.values()) for name, series in fields.items()} == {
        "running": 20,
        "waiting": 0,
        "kv_used_ppm": 250_000,
        "preemptions": 0,
        "prompt_tokens": 5 * 368,
        "prefix_hit_tokens": 5 * 16,
        "generation_tokens": 5 * 84,
        "finished_requests": 5,
    }
