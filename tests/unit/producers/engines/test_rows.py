from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from producers.engines.reading import Reading, read
from producers.engines.rows import engine_rows

SCRAPES = Path(__file__).resolve().parents[4] / "tests" / "data" / "engine_scrapes"
MS = 10_000


def scrape(text: str) -> Reading:
    families = text_string_to_metric_families(text)
    return read([sample for family in families for sample in family.samples])


def reading_of(name: str) -> Reading:
    return scrape((SCRAPES / name).read_text())


LEVELS: dict[str, list[dict[str, Any]]] = {
    "vllm-0.32.0_cpu_after_1_request.prom": [
        {"model": "tiny", "model_version": None, "engine_kind": "vllm", "running": 0, "waiting": 0, "kv_used_ppm": 0}
    ],
    "vllm-0.32.0_cpu_after_bench60_aiperf80.prom": [
        {"model": "tiny", "model_version": None, "engine_kind": "vllm", "running": 0, "waiting": 0, "kv_used_ppm": 0}
    ],
    "vllm_L4_kops_qwen2.5-0.5b.prom": [
        {
            "model": "Qwen/Qwen2.5-0.5B-Instruct",
            "model_version": None,
            "engine_kind": "vllm",
            "running": 0,
            "waiting": 0,
            "kv_used_ppm": 0,
        }
    ],
    "llama-server_after_aiperf40.prom": [
        {"model": None, "model_version": None, "engine_kind": "llamacpp", "running": 0, "waiting": 0}
    ],
    "written/vllm-0.5_old_names.prom": [
        {
            "model": "facebook/opt-125m",
            "model_version": None,
            "engine_kind": "vllm",
            "running": 3,
            "waiting": 2,
            "kv_used_ppm": 437_500,
        }
    ],
    "written/vllm-0.9_both_names_two_engines.prom": [
        {
            "model": "served",
            "model_version": None,
            "engine_kind": "vllm",
            "running": 6,
            "waiting": 1,
            "kv_used_ppm": 375_000,
        }
    ],
    "written/sglang-0.4_documented.prom": [
        {
            "model": "meta-llama/Llama-3.1-8B-Instruct",
            "model_version": None,
            "engine_kind": "sglang",
            "running": 162,
            "waiting": 2826,
            "kv_used_ppm": 280_000,
        }
    ],
    "written/sglang-0.5_ranks_and_priorities.prom": [
        {
            "model": "Qwen/Qwen3-32B",
            "model_version": None,
            "engine_kind": "sglang",
            "running": 9,
            "waiting": 1,
            "kv_used_ppm": 200_000,
        }
    ],
    "written/tgi-3.prom": [{"model": None, "model_version": None, "engine_kind": "tgi", "running": 12, "waiting": 4}],
    "written/trtllm-serve-1.prom": [
        {
            "model": "llama-8b",
            "model_version": None,
            "engine_kind": "trtllm",
            "running": 16,
            "waiting": 3,
            "kv_used_ppm": 620_000,
        }
    ],
    "written/triton-trtllm_two_models.prom": [
        {
            "model": "tensorrt_llm",
            "model_version": "1",
            "engine_kind": "triton",
            "running": 9,
            "waiting": 2,
            "kv_used_ppm": 400_000,
        },
        {"model": "draft", "model_version": "3", "engine_kind": "triton", "running": 1, "waiting": 0},
    ],
}


@pytest.mark.parametrize("name", LEVELS)
def test_a_first_scrape_has_levels_only(name: str) -> None:
    """Every file of the set, as the rows it makes."""
    rows, _ = engine_rows(None, reading_of(name), 0)

    assert rows == LEVELS[name]


def test_every_file_is_read() -> None:
    """No scrape lies there unused."""
    assert {str(path.relative_to(SCRAPES)) for path in SCRAPES.rglob("*.prom")} == set(LEVELS)


def test_differences_of_the_two_vllm_scrapes_are_those_of_the_load_between_them() -> None:
    """140 requests: 60 of vllm bench serve and 80 of aiperf, each of 40 tokens."""
    _, known = engine_rows(None, reading_of("vllm-0.32.0_cpu_after_1_request.prom"), 0)
    rows, _ = engine_rows(known, reading_of("vllm-0.32.0_cpu_after_bench60_aiperf80.prom"), 600_000)

    assert rows == [
        LEVELS["vllm-0.32.0_cpu_after_1_request.prom"][0]
        | {
            "interval_ms": 600_000,
            "preemptions": 0,
            "prompt_tokens": 18_901 - 9,
            "prefix_hit_tokens": 0,
            "generation_tokens": 5_604 - 4,
            "finished_requests": 141 - 1,
        }
    ]
