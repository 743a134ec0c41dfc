"""A vLLM as it comes, without a flag of ours: what it lacks is found, and what is null without it is null."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from collections.abc import Iterator
from math import ceil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fleetpulse.cli import app
from producers.engines.flags import FLAGS, flags_missing_at
from tests.engines import vllm_server
from tests.engines.vllm_server import MODEL, Vllm
from tests.integration.proxy_rig import proxy_to

pytestmark = [pytest.mark.engines, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Vllm]:
    with vllm_server.serving(tmp_path_factory.mktemp("engine") / "vllm.log", flags=()) as running:
        yield running


def test_the_probe_names_both_flags(engine: Vllm) -> None:
    """By one answer."""
    assert flags_missing_at(engine.url) == tuple(FLAGS)


def asked(port: int, **options: Any) -> bytes:
    body = {"model": MODEL, "messages": [{"role": "user", "content": "tide"}], "max_tokens": 8, "ignore_eos": True}
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/v1/chat/completions",
        json.dumps(body | options).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        text: bytes = answer.read()
    return text


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_what_it_does_not_report_is_null(engine: Vllm, stream: bool) -> None:
    """Tokens are counted all the same, and a client that requested none sees none."""
    async with proxy_to(engine.url, ask_usage=True) as rig:
        answer = await asyncio.to_thread(asked, rig.server.port, stream=stream)
        (row,) = await rig.rows_after(1)

    assert (row["status"], row["output_tokens"], row["tokens_from"]) == ("ok", 8, "engine")
    assert row["input_tokens"] > 0
    assert [row[name] for name in ("queue_us", "prefill_us", "decode_us", "cached_tokens")] == [None] * 4
    assert (b'"usage"' in answer) is not stream


def test_its_curve_is_measured_and_planned_by(engine: Vllm, tmp_path: Path) -> None:
    """At one, two and four at once: every request counts, with the tokens asked for; the best rate is what an engine
    carries."""
    kept = tmp_path / "curve.json"
    lengths = ["--prompt-tokens", "16", "--output-tokens", "8", "--requests", "8"]
    measured = CliRunner().invoke(
        app, ["baseline", engine.url, "--concurrency", "1,2,4", *lengths, "--out", str(kept), "--json"]
    )
    planned = CliRunner().invoke(app, ["plan", "--curve", str(kept), "--traffic", "1000", "--json"])

    points = json.loads(measured.stdout)["points"]
    assert [(one["concurrency"], one["requests"], one["failed"]) for one in points] == [(1, 8, 0), (2, 8, 0), (4, 8, 0)]
    for one in points:
        assert one["output_tokens_per_s"] == pytest.approx(8 * one["requests_per_s"], rel=0.01)
    best = max(one["requests_per_s"] for one in points)
    assert (planned.exit_code, json.loads(planned.stdout)["engines"]) == (0, ceil(1_000 / (best * 0.8)))
