"""Which column is filled from which engine by which source: data, and the section of docs/reference/engines.md that is
written from it, ``python -m producers.engines.filled``. A test holds each cell against the answers and pages it names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from schemas.reference import table

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "engines.md"
BEGIN = "<!-- Written by `python -m producers.engines.filled`, up to the end mark; change its tables instead. -->"
END = "<!-- End of what is written. -->"

RECORDED, DOCUMENTED = "filled", "documented"
WORDS: Mapping[str, str] = {
    RECORDED: "a recorded answer of the real engine fills it",
    DOCUMENTED: "filled from a page, object or span made after the engine's source or documentation; none is recorded",
    "unsaid": "null: the engine, or the convention, does not report it",
    "unread": "null: this source does not read it",
    "whole": "null: an answer in one piece has no chunks to time",
    "added": "not reported there: known from configuration, the client, or what the agent knows of the engine",
    "unrecorded": "null in every recorded answer; whether others fill it is not recorded, and not claimed",
}


@dataclass(frozen=True, slots=True)
class Source:
    """A column of the table. ``proof``: the word of a cell that is filled; ``evidence``: what it is held against."""

    name: str
    proof: str
    evidence: str


@dataclass(frozen=True, slots=True)
class Grid:
    """One event: a line per column, a word per source. ``added``: columns that no engine reports."""

    topic: str
    sources: tuple[Source, ...]
    text: str
    added: tuple[str, ...]
    absent: str

    @property
    def cells(self) -> dict[str, tuple[str, ...]]:
        """Words by column, in order of the sources."""
        return {name: tuple(words) for name, *words in (line.split() for line in self.text.strip().splitlines())}


_ANSWERS = "`tests/data/engine_answers`"
_STATS = "`FinishedRequestStats`, `vllm/v1/metrics/stats.py` of vLLM 0.27 to 0.32"
REQUESTS = Grid(
    "llm.requests",
    (
        Source("proxy, vLLM, whole", RECORDED, f"whole answers and errors of vLLM 0.32.0 with two flags, {_ANSWERS}"),
        Source("proxy, vLLM, stream", RECORDED, f"streams of the same, {_ANSWERS}"),
        Source(
            "proxy, llama.cpp, whole", RECORDED, f"whole answers and errors of llama.cpp's server 0.5.0, {_ANSWERS}"
        ),
        Source("proxy, llama.cpp, stream", RECORDED, f"streams of the same, {_ANSWERS}"),
        Source("SDK, vLLM, whole", RECORDED, "the same whole answers through the `openai` package"),
        Source("SDK, vLLM, stream", RECORDED, "the same streams, usage requested, through the `openai` package"),
        Source("plug-in, vLLM", DOCUMENTED, f"objects shaped as {_STATS}"),
        Source("OTLP, client", DOCUMENTED, "spans after the GenAI semantic conventions 1.44.0"),
        Source("OTLP, vLLM", DOCUMENTED, "a span after `vllm/tracing.py`"),
    ),
    """
at_ms              filled     filled     filled     filled     filled     filled     documented documented documented
ttft_us            whole      filled     whole      filled     whole      filled     documented documented documented
tpot_us            whole      filled     whole      filled     whole      filled     documented unsaid     documented
e2e_us             filled     filled     filled     filled     filled     filled     documented documented documented
queue_us           filled     filled     unsaid     unsaid     unread     unread     documented unsaid     documented
ttfo_us            whole      filled     whole      filled     whole      filled     unsaid     unsaid     unsaid
prefill_us         filled     filled     filled     filled     unread     unread     documented unsaid     documented
decode_us          filled     filled     filled     filled     unread     unread     documented unsaid     documented
input_tokens       filled     filled     filled     filled     filled     filled     documented documented documented
cached_tokens      filled     filled     filled     filled     filled     filled     documented documented unsaid
output_tokens      filled     filled     filled     filled     filled     filled     documented documented documented
reasoning_tokens   filled     unrecorded unrecorded unrecorded filled     unrecorded unsaid     documented unsaid
speculative_tokens unrecorded unrecorded unrecorded unrecorded unrecorded unrecorded unsaid     unsaid     unsaid
http_status        filled     filled     filled     filled     filled     unrecorded unsaid     documented unsaid
chunks             whole      filled     whole      filled     whole      filled     unsaid     unsaid     unsaid
icl_max_us         whole      filled     whole      filled     whole      filled     unsaid     unsaid     unsaid
itl_bins           whole      filled     whole      filled     whole      filled     unsaid     unsaid     unsaid
tool_calls         filled     filled     filled     filled     filled     unread     unsaid     unsaid     unsaid
choices            filled     filled     filled     filled     filled     unread     unsaid     documented documented
model              filled     filled     filled     filled     filled     filled     documented documented documented
model_version      added      added      added      added      added      added      documented added      added
precision          added      added      added      added      added      added      documented added      added
status             filled     filled     filled     filled     filled     filled     documented documented documented
error_kind         filled     unrecorded filled     unrecorded filled     unrecorded documented documented unsaid
finish_reason      filled     filled     filled     filled     filled     filled     documented documented unsaid
api                filled     filled     filled     filled     filled     filled     unsaid     documented documented
tokens_from        filled     filled     filled     filled     filled     filled     documented documented documented
request_id         filled     filled     filled     filled     filled     filled     documented documented documented
trace_id           added      added      added      added      added      added      unsaid     documented documented
model_requested    filled     unrecorded unrecorded unrecorded filled     unrecorded unsaid     documented unsaid
user_hash          added      added      added      added      added      added      unsaid     added      unsaid
""",
    (
        *("cluster", "region", "host", "engine_id", "placement_group", "tenant", "slo_class", "start", "origin"),
        "reported_by",
    ),
    "`error_kind` is of requests that failed; so is the SDK's `http_status`. `model_requested` is of requests whose"
    " model is `__unknown__`, and of those that llama.cpp, SGLang or TensorRT-LLM answered under a name that is not"
    " its model's (TGI: `tgi`);"
    " `user_hash` is there where `proxy.user_hash` is on. Answers of SGLang, TGI, TensorRT-LLM"
    " and Triton to requests are not recorded: nothing is claimed of them. A scrape has no requests.",
)

_WRITTEN = "`tests/data/engine_scrapes/written`"
SAMPLES = Grid(
    "engine.samples",
    (
        Source("vLLM", RECORDED, "three scrapes of vLLM, two of them of 0.32.0, `tests/data/engine_scrapes`"),
        Source("llama.cpp", RECORDED, "a scrape of its server after 40 requests, `tests/data/engine_scrapes`"),
        Source(
            "SGLang",
            DOCUMENTED,
            "`sgl-project/sglang:docs/references/production_metrics.md` and"
            f" `sgl-project/sglang:python/sglang/srt/observability/metrics_collector.py`, {_WRITTEN}",
        ),
        Source(
            "TGI",
            DOCUMENTED,
            "`huggingface/text-generation-inference:docs/source/reference/metrics.md`"
            f" and the counters of its `router/src/infer/mod.rs`, {_WRITTEN}",
        ),
        Source("TensorRT-LLM", DOCUMENTED, f"`NVIDIA/TensorRT-LLM:tensorrt_llm/metrics/collector.py`, {_WRITTEN}"),
        Source(
            "Triton",
            DOCUMENTED,
            "its read-me and"
            " `triton-inference-server/tensorrtllm_backend:inflight_batcher_llm/src/custom_metrics_reporter`"
            f", {_WRITTEN}",
        ),
        Source("OTLP", DOCUMENTED, "points after the GenAI semantic conventions 1.44.0"),
    ),
    """
at_ms              filled     filled     documented documented documented documented documented
running            filled     filled     documented documented documented documented unsaid
waiting            filled     filled     documented documented documented documented unsaid
kv_used_ppm        filled     unsaid     documented unsaid     documented documented unsaid
interval_ms        filled     filled     documented documented documented documented documented
preemptions        filled     unsaid     documented unsaid     unsaid     unsaid     unsaid
prompt_tokens      filled     filled     documented documented documented documented documented
prefix_hit_tokens  filled     filled     documented unsaid     documented unsaid     unsaid
generation_tokens  filled     filled     documented documented documented documented documented
finished_requests  filled     unsaid     documented documented documented documented documented
model              filled     added      documented added      documented documented documented
model_version      added      added      added      added      added      documented unsaid
engine_kind        filled     filled     documented documented documented documented unsaid
""",
    ("cluster", "region", "host", "engine_id", "placement_group", "precision", "origin"),
    "But OTLP's points are of engines that the agent does not know: their `engine_id`, `placement_group` and"
    " `precision` are null. Proxy, plug-in and SDK send none."
    " No scrape of SGLang, TGI, TensorRT-LLM or Triton is recorded.",
)
GRIDS = (REQUESTS, SAMPLES)


def section() -> str:
    """What stands between the marks."""
    return "\n\n".join((table(("cell", "means"), WORDS.items()), *map(_grid, GRIDS)))


def _grid(grid: Grid) -> str:
    head = ("column", *(each.name for each in grid.sources))
    added = ", ".join(f"`{name}`" for name in grid.added)
    return "\n\n".join(
        (
            f"### {grid.topic}",
            table(head, ((f"`{name}`", *words) for name, words in grid.cells.items())),
            f"Added, whatever the source: {added}. {grid.absent}",
            table(("source", "held against"), ((each.name, each.evidence) for each in grid.sources)),
        )
    )


def page(text: str) -> str:
    """The page with its section written again; all else as it is."""
    before, _, rest = text.partition(BEGIN)
    return f"{before}{BEGIN}\n\n{section()}\n\n{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
