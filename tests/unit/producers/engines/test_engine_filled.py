"""The table of columns by engine and source says what recorded and documented answers fill, no more and no less."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import fleetpulse_track as track
from fleetpulse_track import handover
from fleetpulse_track.plugins import vllm
from producers.engines.filled import DOCUMENTED, GRIDS, PAGE, RECORDED, REQUESTS, SAMPLES, WORDS, Grid, page
from producers.engines.rows import Known, engine_rows
from producers.otlp.points import Points
from producers.otlp.semconv import request_of
from producers.requests.client_names import ClientNames
from producers.requests.endings import How
from schemas.events.event_types import ENGINE_SAMPLES, LLM_REQUESTS
from tests.unit.producers.engines.test_engine_rows import SCRAPES, reading_of
from tests.unit.producers.otlp.test_semconv import CHAT, LABELS, VLLM_SPAN, tokens, with_attributes
from tests.unit.producers.receiver import sent
from tests.unit.producers.receiver.test_fold import folded
from tests.unit.producers.receiver.test_fold import rows as rows_of_fold
from tests.unit.producers.requests.test_recorded_answers import ANSWERS, FOLDER, LLAMA_CPP, LLAMA_CPP_ANSWERS
from tests.unit.producers.requests.test_recorded_answers import row_of as row_of_answer
from tests.unit.sdk.plugins.test_vllm import CONFIG, FinishReason, New
from tests.unit.sdk.test_openai_client import HI, a_client, calls

Rows = list[dict[str, Any]]
STREAMS = {"stream", "raw stream", "lines", "completions stream"}
EVENTS = {REQUESTS.topic: LLM_REQUESTS, SAMPLES.topic: ENGINE_SAMPLES}
PAGES = {
    "vLLM": ("vllm-0.32.0_cpu_after_1_request", "vllm-0.32.0_cpu_after_bench60_aiperf80", "vllm_L4_kops_qwen2.5-0.5b"),
    "llama.cpp": ("llama-server_after_aiperf40",),
    "SGLang": ("written/sglang-0.4_documented", "written/sglang-0.5_ranks_and_priorities"),
    "TGI": ("written/tgi-3",),
    "TensorRT-LLM": ("written/trtllm-serve-1",),
    "Triton": ("written/triton-trtllm_two_models",),
}


def through_the_proxy(*, streamed: bool, folder: Path = FOLDER) -> Rows:
    """The rows of every recorded answer to a request."""
    answers = ANSWERS if folder is FOLDER else LLAMA_CPP_ANSWERS
    names = [name for name, each in answers.items() if isinstance(each.get("request"), dict)]
    kind = [name for name in names if answers[name]["file"].endswith(".sse") == streamed]
    ends = {name: How.CLIENT_GONE if "aborted" in name else How.COMPLETE for name in kind}
    return judged([row_of_answer(name, how, folder) for name, how in ends.items()])


def judged(rows: Rows) -> Rows:
    """The rows, their models judged as proxy and agent do."""
    names = ClientNames()
    for row in rows:
        names.judge(row)
    return rows


def through_the_sdk(*, streamed: bool) -> Rows:
    """The rows of recorded answers that a tracked client got, as the agent makes them."""
    openai, client = import_module("openai"), sent.Recorded()
    ours = track.openai(a_client(openai), client=client)
    for name, (call, _) in calls().items():
        if (name in STREAMS) == streamed:
            call(ours)
    if not streamed:
        ours.responses.create(model="tiny", input="a")
        with pytest.raises(openai.NotFoundError):
            ours.chat.completions.create(model="nobody", messages=HI)
    return rows_of_fold(folded(client))


def through_the_plugin() -> Rows:
    """The rows of two finished requests, one of them failed."""
    client, before = sent.Recorded(), handover._default
    whole = {"num_prompt_tokens": 9, "num_generation_tokens": 3, "num_cached_tokens": 1, "decode_time": 0.5}
    done = [New(FinishReason.STOP, "a", e2e_latency=1.0, **whole), New(FinishReason.ERROR, "b", e2e_latency=1.0)]
    handover._default = client
    try:
        vllm.Recording(CONFIG).record(None, SimpleNamespace(finished_requests=done))
    finally:
        handover._default = before
    return rows_of_fold(folded(client))


def of_client_spans() -> Rows:
    """The rows of a chat, of one refused after its first chunk was timed, and of one for a model that is not there."""
    refused = {"error__type": "429", "http__response__status_code": 429}
    late = with_attributes(gen_ai__response__time_to_first_chunk=0.1, **refused)
    unknown = with_attributes(error__type="404", http__response__status_code=404, gen_ai__response__model=None)
    return judged([request_of(each, LABELS) for each in (CHAT, late, unknown)])


def of_pages(names: tuple[str, ...]) -> Rows:
    """The rows of these pages, of processes that had counted nothing before."""
    readings = [reading_of(f"{name}.prom") for name in names]
    return [
        row
        for now in readings
        for row in engine_rows(Known(0, now.kind, now.started_at_s, {}, whole=True), now, 7_000, 1_000)[0]
    ]


def of_points() -> Rows:
    """Tokens in and out, and finished requests."""
    finished = replace(tokens(1, 2.5), metric="gen_ai.server.request.duration")
    found = [Points(LABELS).sample_of(each) for each in (tokens(1, 7.0), tokens(1, 7.0, kind="output"), finished)]
    return [row for row in found if row is not None]


def rows_by_source() -> dict[tuple[str, str], Rows]:
    requests = {
        "proxy, vLLM, whole": through_the_proxy(streamed=False),
        "proxy, vLLM, stream": through_the_proxy(streamed=True),
        "proxy, llama.cpp, whole": through_the_proxy(streamed=False, folder=LLAMA_CPP),
        "proxy, llama.cpp, stream": through_the_proxy(streamed=True, folder=LLAMA_CPP),
        "SDK, vLLM, whole": through_the_sdk(streamed=False),
        "SDK, vLLM, stream": through_the_sdk(streamed=True),
        "plug-in, vLLM": through_the_plugin(),
        "OTLP, client": of_client_spans(),
        "OTLP, vLLM": [request_of(VLLM_SPAN, LABELS)],
    }
    samples = {name: of_pages(pages) for name, pages in PAGES.items()} | {"OTLP": of_points()}
    return {(REQUESTS.topic, name): rows for name, rows in requests.items()} | {
        (SAMPLES.topic, name): rows for name, rows in samples.items()
    }


@pytest.mark.parametrize("grid", GRIDS, ids=lambda grid: grid.topic)
def test_every_column_stands_once_with_a_word_for_every_source(grid: Grid) -> None:
    """Those of the event, in the table or among the added ones; words that the page explains."""
    assert sorted((*grid.cells, *grid.added)) == sorted(field.name for field in EVENTS[grid.topic].fields)
    assert {len(words) for words in grid.cells.values()} == {len(grid.sources)}
    assert {word for words in grid.cells.values() for word in words} <= set(WORDS)


def test_a_cell_is_filled_where_an_answer_fills_it_and_nowhere_else() -> None:
    """Of every source, the columns said to be filled are those that a row of its answers has."""
    found = rows_by_source()

    assert list(found) == [(grid.topic, each.name) for grid in GRIDS for each in grid.sources]
    for grid in GRIDS:
        for at, source in enumerate(grid.sources):
            said = {name for name, words in grid.cells.items() if words[at] == source.proof}
            has = {
                name for name in grid.cells for row in found[grid.topic, source.name] if row.get(name) not in (None, {})
            }
            assert has == said, (grid.topic, source.name)
            assert {words[at] for words in grid.cells.values()} & {RECORDED, DOCUMENTED} == {source.proof}


def test_a_page_that_was_written_by_hand_is_not_called_recorded() -> None:
    """Its folder says so."""
    proofs = {each.name: each.proof for each in SAMPLES.sources}

    assert {name: proofs[name] == DOCUMENTED for name in PAGES} == {
        name: all(each.startswith("written/") for each in pages) for name, pages in PAGES.items()
    }
    assert all((SCRAPES / f"{each}.prom").exists() for pages in PAGES.values() for each in pages)


def test_the_page_has_the_table() -> None:
    """As it would be written now; writing leaves all else."""
    text = PAGE.read_text()

    assert page(text) == text
    assert page(text).startswith("# Serving engines")
