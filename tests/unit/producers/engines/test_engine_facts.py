from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from producers.engines.facts import (
    DOCUMENTS,
    NO_FACTS,
    TEXT_CHARS_MAX,
    Facts,
    cache_of_samples,
    excerpt,
    facts_of,
    facts_of_samples,
    first_known,
    precision_of,
    reserved_of_samples,
)
from producers.engines.mappings import BY_KIND
from producers.exposition import parse

RECORDED = Path(__file__).resolve().parents[3] / "data" / "engine_answers" / "vllm-0.32.0"
LLAMA_CPP = RECORDED.parent / "llama.cpp-0.5.0"


@dataclass(frozen=True)
class Line:
    name: str
    labels: dict[str, str]
    value: float = 1.0


def facts(kind: str, **answers: Any) -> Facts:
    """All documents of the engine, each answered by path (``_`` for ``/``) or not at all."""
    by_path = {name.replace("_", "/"): answer for name, answer in answers.items()}
    return first_known(*[facts_of(each, by_path.get(each.url_path.replace("_", "/"))) for each in DOCUMENTS[kind]])


def test_every_engine_has_documents() -> None:
    """Every engine that can be scraped has documents."""
    assert set(DOCUMENTS) == set(BY_KIND)


# Shapes after the sources that the module names.


def test_vllm() -> None:
    """/version and /v1/models, whose root stands for the version of the weights; precision is not reported."""
    models = {"object": "list", "data": [{"id": "tiny", "object": "model", "root": "/m/tiny", "max_model_len": 2048}]}

    assert facts("vllm", _version={"version": "0.32.0"}, _v1_models=models) == Facts(
        model="tiny", model_version="/m/tiny", engine_version="0.32.0", context_tokens_max=2_048, folder="/m/tiny"
    )


def test_pages_of_a_real_vllm() -> None:
    """As recorded from 0.32."""
    pages = {f"_{name}": json.loads((RECORDED / f"{name}.json").read_text()) for name in ("version", "v1_models")}

    assert facts("vllm", **pages) == Facts(
        model="tiny", model_version="./tiny", engine_version="0.32.0", context_tokens_max=2_048, folder="./tiny"
    )


SGLANG_ARGUMENTS = {
    "model_path": "/models/Qwen3-32B-FP8",
    "served_model_name": "Qwen/Qwen3-32B",
    "revision": None,
    "weight_version": "v7",
    "quantization": "FP8",
    "dtype": "auto",
    "context_length": None,
    "tp_size": 4,
    "version": "0.5.19",
    "api_key": "secret",
    "internal_states": [{}],
}


@pytest.mark.parametrize("path", ["_server_info", "_get_server_info"], ids=["new", "old"])
def test_sglang(path: str) -> None:
    """Server arguments at either address; the context comes from /v1/models where the arguments leave it open."""
    models = {"data": [{"id": "Qwen/Qwen3-32B", "max_model_len": 40_960}]}

    assert facts("sglang", **{path: SGLANG_ARGUMENTS}, _v1_models=models) == Facts(
        model="Qwen/Qwen3-32B",
        model_version="v7",
        precision="fp8",
        engine_version="0.5.19",
        context_tokens_max=40_960,
        tensor_parallel=4,
        folder="/models/Qwen3-32B-FP8",
    )


MEMORY = {"weight": 8.5, "kvcache": 60.25, "token_capacity": 500_000, "graph": 0.1}


@pytest.mark.parametrize(
    ("changes", "size"),
    [
        ({"internal_states": [{"memory_usage": MEMORY}]}, (34 * 2**30, 241 * 2**30, 500_000)),
        ({"internal_states": [{"memory_usage": MEMORY}] * 2}, (None, None, 1_000_000)),
        ({"internal_states": [{"memory_usage": MEMORY}], "pp_size": 2}, (None, None, 500_000)),
        ({"internal_states": [{"memory_usage": MEMORY}, {}]}, (None, None, None)),
        ({"internal_states": [{"memory_usage": {"weight": "8", "kvcache": -1.0}}]}, (None, None, None)),
        ({"internal_states": {"memory_usage": MEMORY}}, (None, None, None)),
    ],
)
def test_memory_of_sglang(changes: dict[str, Any], size: tuple[int | None, ...]) -> None:
    """GiB of one GPU, of so many; copies add their tokens, and what they hold is not known of each."""
    found = facts("sglang", _server_info=SGLANG_ARGUMENTS | changes)

    assert (found.weight_bytes, found.kv_cache_bytes, found.kv_cache_tokens) == size


BLOCKS = {"block_size": "16", "num_gpu_blocks": "7000", "cache_dtype": "auto"}


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        ([Line("vllm:cache_config_info", BLOCKS)], (112_000, "auto")),
        ([Line("vllm:cache_config_info", BLOCKS | {"engine": rank}) for rank in "01"], (224_000, "auto")),
        ([Line("vllm:cache_config_info", BLOCKS | {"num_gpu_blocks": "None"})], (None, "auto")),
        ([Line("vllm:cache_config_info", BLOCKS | {"kv_cache_size_tokens": "111000"})], (111_000, "auto")),
        ([Line("vllm:cache_config_info", BLOCKS | {"kv_cache_size_tokens": "None"})], (112_000, "auto")),
        ([Line("vllm:cache_config_info", BLOCKS | {"num_gpu_blocks": "4294967295"})], (None, "auto")),
        (
            [
                Line("nv_trt_llm_kv_cache_block_metrics", {"kv_cache_block_type": "max"}, 6_239),
                Line("nv_trt_llm_kv_cache_block_metrics", {"kv_cache_block_type": "tokens_per"}, 64),
                Line("nv_trt_llm_kv_cache_block_metrics", {"kv_cache_block_type": "fraction"}, 0.4),
            ],
            (399_296, None),
        ),
        ([Line("nv_trt_llm_kv_cache_block_metrics", {"kv_cache_block_type": "max"}, 6_239)] * 2, (None, None)),
        ([], (None, None)),
    ],
)
def test_room_in_the_cache(lines: list[Line], found: tuple[int | None, str | None]) -> None:
    """Blocks times their size, of all copies; nothing where one of them does not say it."""
    assert cache_of_samples(lines) == found  # type: ignore[arg-type]


def test_room_of_recorded_pages() -> None:
    """Of a vLLM on an L4, and of an older one."""
    text = (RECORDED.parents[1] / "engine_scrapes" / "vllm_L4_kops_qwen2.5-0.5b.prom").read_text()

    assert cache_of_samples(parse(excerpt(text, "vllm")).samples) == (101_625 * 16, "auto")


def info(**labels: str) -> Line:
    return Line("vllm:cache_config_info", BLOCKS | labels)


@pytest.mark.parametrize(
    ("lines", "share_ppm"),
    [
        ([info(gpu_memory_utilization="0.9")], 900_000),
        ([info(gpu_memory_utilization="0.92", kv_cache_memory_bytes="None")], 920_000),
        ([info(gpu_memory_utilization="0.92", kv_cache_memory_bytes="1073741824")], None),
        ([info(gpu_memory_utilization="0.9", engine=rank) for rank in "01"], 900_000),
        ([info(gpu_memory_utilization="0.9"), info(gpu_memory_utilization="0.5")], None),
        ([info(gpu_memory_utilization="None")], None),
        ([info(gpu_memory_utilization="nan")], None),
        ([info(gpu_memory_utilization="90")], None),
        ([info()], None),
        ([], None),
    ],
    ids=[
        "vLLM 0.9",
        "0.32",
        "its cache has a size of its own, which that does not bound",
        "every copy the same",
        "copies that differ",
        "not set",
        "no number",
        "no share",
        "before it was reported",
        "another engine",
    ],
)
def test_what_an_engine_may_take_of_its_gpus(lines: list[Line], share_ppm: int | None) -> None:
    """vLLM's flag, as it repeats it."""
    assert reserved_of_samples(lines) == share_ppm  # type: ignore[arg-type]


def test_what_recorded_engines_may_take() -> None:
    """A vLLM on an L4; one on a processor, whose flag means nothing there: its cache was given in bytes."""
    scrapes = RECORDED.parents[1] / "engine_scrapes"
    texts = [
        (scrapes / name).read_text()
        for name in ("vllm_L4_kops_qwen2.5-0.5b.prom", "vllm-0.32.0_cpu_after_1_request.prom")
    ]

    assert [reserved_of_samples(parse(excerpt(text, "vllm")).samples) for text in texts] == [900_000, None]


def test_tgi() -> None:
    """/info has everything but the number of shards."""
    info = {
        "model_id": "bigscience/bloom-560m",
        "model_sha": "e985a63cdc139290c5f700ff1929f0b5942cced2",
        "model_dtype": "torch.float16",
        "max_total_tokens": 2_048,
        "version": "3.3.4",
        "sha": None,
    }

    assert facts("tgi", _info=info) == Facts(
        model="bigscience/bloom-560m",
        model_version="e985a63cdc139290c5f700ff1929f0b5942cced2",
        precision="fp16",
        engine_version="3.3.4",
        context_tokens_max=2_048,
        folder="bigscience/bloom-560m",
    )


def test_trtllm_tells_by_labels() -> None:
    """Of its info metrics; a quantisation of ``none`` leaves the type of the weights."""
    model = {"model_name": "llama-8b", "dtype": "float16", "quantization": "none", "max_model_len": "4096"}
    lines = [
        Line("trtllm_model_config_info", model),
        Line("trtllm_parallel_config_info", {"tensor_parallel_size": "4", "gpu_count": "8"}),
        Line("trtllm_num_requests_running", {"quantization": "fp8"}),
    ]

    assert facts_of_samples(lines) == Facts(precision="fp16", context_tokens_max=4_096, tensor_parallel=4)
    assert facts("trtllm", _version={"version": "1.2.0"}, _v1_models={"data": [{"id": "llama-8b"}]}) == Facts(
        model="llama-8b", engine_version="1.2.0"
    )


def test_triton_tells_its_version() -> None:
    """KServe's server metadata; models stand in its metrics."""
    assert facts("triton", _v2={"name": "triton", "version": "2.59.0", "extensions": []}) == Facts(
        engine_version="2.59.0"
    )


def test_llamacpp() -> None:
    """/props and /v1/models; the context is that of a slot, not that of the training."""
    props = {"build_info": "b6710-74b8fc17f", "default_generation_settings": {"n_ctx": 4_096}, "total_slots": 4}
    models = {
        "data": [{"id": "tiny", "meta": {"n_ctx_train": 32_768, "ftype": "Q8_0", "n_params": 136_000, "size": 144_500}}]
    }

    assert facts("llamacpp", _props=props, _v1_models=models) == Facts(
        model="tiny", precision="int8", engine_version="b6710-74b8fc17f", context_tokens_max=4_096,
        parameters=136_000, weight_bytes=144_500,
    )  # fmt: skip


def test_llamacpp_as_it_answered() -> None:
    """Both pages of a real server."""
    pages = {name: json.loads((LLAMA_CPP / f"{name}.json").read_text()) for name in ("props", "v1_models")}

    assert facts("llamacpp", _props=pages["props"], _v1_models=pages["v1_models"]) == Facts(
        model="tiny", precision="bf16", engine_version=pages["props"]["build_info"], context_tokens_max=2_048,
        parameters=375_936, weight_bytes=753_152,
    )  # fmt: skip


@pytest.mark.parametrize("answer", [None, [], {}, "text", 7, {"data": []}, {"data": {}}, {"data": [None]}, {"data": 1}])
def test_answers_of_another_shape_are_unknown(answer: Any) -> None:
    """An error page in JSON, for example."""
    for kind, documents in DOCUMENTS.items():
        assert [facts_of(each, answer) for each in documents] == [NO_FACTS] * len(documents), kind


@pytest.mark.parametrize("number", [0, -1, 2**31, True, 1.5, "", "12a", "٣", "9" * 11, None, [1]])
def test_a_number_out_of_bounds_is_unknown(number: Any) -> None:
    """Counts start at one and fit 31 bits."""
    assert facts("vllm", _v1_models={"data": [{"max_model_len": number}]}) == NO_FACTS


@pytest.mark.parametrize("text", ["", "  ", "auto", "None", "unknown", "default", 7, None, ["x"]])
def test_a_text_that_says_nothing_is_unknown(text: Any) -> None:
    """Or is none."""
    assert facts("vllm", _version={"version": text}) == NO_FACTS


def test_a_text_is_cut() -> None:
    """A label has its length."""
    assert facts("vllm", _version={"version": "v" * 300}) == Facts(engine_version="v" * TEXT_CHARS_MAX)


def test_the_first_that_knows_is_taken_fact_by_fact() -> None:
    """Nothing known of nothing."""
    assert first_known() == NO_FACTS
    assert first_known(Facts(model="a"), Facts(model="b", precision="fp8")) == Facts(model="a", precision="fp8")


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("torch.bfloat16", "bf16"),
        ("half", "fp16"),
        ("AWQ", "int4"),
        ("gptq", "gptq"),
        ("fp8", "fp8"),
        ("float8_e4m3fn", "fp8"),
        ("w8a8_int8", "int8"),
        ("Q4_K - Medium", "int4"),
        ("all F32", "fp32"),
    ],
)
def test_precisions_have_one_name(name: str, short: str) -> None:
    """That of the weights, in lower case."""
    assert precision_of(name) == short


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda children: (
        st.lists(children, max_size=3)
        | st.dictionaries(st.sampled_from(["data", "id", "meta", "version", "max_model_len", "n_ctx", "x"]), children)
    ),
    max_leaves=12,
)


@given(JSON)
def test_no_answer_raises_and_every_fact_is_bounded(answer: Any) -> None:
    """Whatever JSON an address gives."""
    for documents in DOCUMENTS.values():
        for document in documents:
            facts = facts_of(document, answer)
            texts = (facts.model, facts.model_version, facts.precision, facts.engine_version)
            assert all(text is None or 0 < len(text) <= TEXT_CHARS_MAX for text in texts)
            assert all(n is None or 0 < n < 2**31 for n in (facts.context_tokens_max, facts.tensor_parallel))
