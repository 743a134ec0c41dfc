"""The plug-in for vLLM, against the shapes that vLLM hands over; it is not installed.

``FinishedRequestStats`` as in vLLM 0.11.0 (``Old``) and 0.27 to 0.32 (``New``), ``vllm/v1/metrics/stats.py``; values
follow ``IterationStats.update_from_finished_request`` there.
"""

from __future__ import annotations

import tomllib
from collections import OrderedDict
from dataclasses import dataclass
from enum import IntEnum
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fleetpulse_track.plugins import vllm
from producers.engines import facts
from tests.unit.producers.receiver import sent
from tests.unit.sdk.plugins.stand_ins import said, stand_in

ROOT = Path(__file__).resolve().parents[4]


class FinishReason(IntEnum):
    """As ``vllm.v1.engine.FinishReason``: its text is a lower-case word."""

    STOP = 0
    LENGTH = 1
    ABORT = 2
    ERROR = 3
    REPETITION = 4

    def __str__(self) -> str:
        return self.name.lower()


@dataclass
class Old:
    """``FinishedRequestStats`` of vLLM 0.11.0."""

    finish_reason: FinishReason
    e2e_latency: float = 0.0
    num_prompt_tokens: int = 0
    num_generation_tokens: int = 0
    max_tokens_param: int | None = None
    queued_time: float = 0.0
    prefill_time: float = 0.0
    inference_time: float = 0.0
    decode_time: float = 0.0
    mean_time_per_output_token: float = 0.0


@dataclass
class New:
    """``FinishedRequestStats`` of vLLM 0.27 to 0.32."""

    finish_reason: FinishReason
    request_id: str | None = None
    e2e_latency: float = 0.0
    num_prompt_tokens: int = 0
    num_generation_tokens: int = 0
    max_tokens_param: int | None = None
    queued_time: float = 0.0
    prefill_time: float = 0.0
    inference_time: float = 0.0
    decode_time: float = 0.0
    mean_time_per_output_token: float = 0.0
    is_corrupted: bool = False
    num_cached_tokens: int = 0


CONFIG = SimpleNamespace(
    model_config=SimpleNamespace(
        served_model_name=["llama", "alias"],
        model="meta/llama",
        revision="abc",
        quantization=None,
        dtype="torch.bfloat16",
    )
)


def test_a_finished_request_of_vllm_is_reported_whole(reported: sent.Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    """All that the engine knows; the first token came when what is not decoding was over."""
    monkeypatch.setenv("FLEETPULSE_ENGINE_ID", "e-1")
    done = New(
        FinishReason.STOP,
        "cmpl-7",
        e2e_latency=1.25,
        num_prompt_tokens=512,
        num_generation_tokens=101,
        queued_time=0.05,
        prefill_time=0.19,
        inference_time=1.19,
        decode_time=1.0,
        mean_time_per_output_token=0.01,
        num_cached_tokens=256,
    )

    vllm.Recording(CONFIG, 0).record(None, SimpleNamespace(finished_requests=[done]), None, engine_idx=2)

    assert said(reported) == [
        {
            "status": "ok",
            "finish_reason": "stop",
            "model": "llama",
            "model_version": "abc",
            "precision": "bf16",
            "engine_id": "e-1-2",
            "request_id": "cmpl-7",
            "reported_by": "plugin",
            "e2e_us": 1_250_000,
            "ttft_us": 250_000,
            "tpot_us": 10_000,
            "queue_us": 50_000,
            "prefill_us": 190_000,
            "decode_us": 1_000_000,
            "input_tokens": 512,
            "cached_tokens": 256,
            "output_tokens": 101,
            "tokens_from": "engine",
        }
    ]


@pytest.mark.parametrize(
    ("reason", "status", "error_kind", "finish_reason"),
    [
        (FinishReason.STOP, "ok", None, "stop"),
        (FinishReason.LENGTH, "ok", None, "length"),
        (FinishReason.ABORT, "aborted", None, "abort"),
        (FinishReason.ERROR, "error", "server", "error"),
        (FinishReason.REPETITION, "ok", None, "other"),
    ],
)
def test_every_end_of_vllm_has_our_words(
    reason: FinishReason, status: str, error_kind: str | None, finish_reason: str
) -> None:
    """By the text of its enumeration."""
    fields = vllm.fields_of(New(reason))

    assert (fields["status"], fields["error_kind"], fields["finish_reason"]) == (status, error_kind, finish_reason)


def test_the_cached_tokens_of_what_was_never_scheduled_are_unknown() -> None:
    """-1 in vLLM, of a request whose KV could not be loaded: it would be rejected whole."""
    fields = vllm.fields_of(New(FinishReason.ERROR, num_prompt_tokens=3, num_cached_tokens=-1))

    assert (fields["status"], fields["input_tokens"], fields["cached_tokens"]) == ("error", 3, None)


def test_what_an_older_vllm_lacks_is_unknown() -> None:
    """No id, no cached tokens; the rest is there."""
    fields = vllm.fields_of(Old(FinishReason.LENGTH, e2e_latency=0.5, num_prompt_tokens=3, num_generation_tokens=2))

    assert (fields["request_id"], fields["cached_tokens"], fields["input_tokens"], fields["e2e_us"]) == (
        None,
        None,
        3,
        500_000,
    )


def test_phases_that_never_began_are_unknown() -> None:
    """A request that ended in the queue: moments of 0 make negative and huge differences there."""
    fields = vllm.fields_of(
        New(FinishReason.ABORT, e2e_latency=2.0, queued_time=-86_400.5, prefill_time=0.0, decode_time=0.0)
    )

    assert {name: fields[name] for name in ("queue_us", "prefill_us", "decode_us", "tpot_us")} == dict.fromkeys(
        ("queue_us", "prefill_us", "decode_us", "tpot_us")
    )
    assert "ttft_us" not in fields


def test_one_token_has_no_time_per_token() -> None:
    """vLLM says 0 there; its first token is its last."""
    fields = vllm.fields_of(New(FinishReason.LENGTH, e2e_latency=0.2, num_generation_tokens=1))

    assert (fields["tpot_us"], fields["ttft_us"], fields["decode_us"]) == (None, 200_000, 0)


@pytest.mark.parametrize(
    "stats", [None, SimpleNamespace(), SimpleNamespace(finished_requests=[]), SimpleNamespace(finished_requests=None)]
)
def test_a_step_in_which_nothing_ended_reports_nothing(reported: sent.Recorded, stats: Any) -> None:
    """And every signature of ``record`` is taken."""
    logger = vllm.Recording(CONFIG)
    logger.record(None, stats)
    logger.record(None, stats, 0)
    logger.record(scheduler_stats=None, iteration_stats=stats, mm_cache_stats=None, engine_idx=0)
    logger.log_engine_initialized()
    logger.log()

    assert reported.sent == []


def test_a_configuration_of_another_shape_harms_nothing(reported: sent.Recorded) -> None:
    """The request is reported without its labels."""
    vllm.Recording(object()).record(None, SimpleNamespace(finished_requests=[New(FinishReason.STOP)]))

    assert [each.get("model") for each in said(reported)] == [None]


def test_choices_of_one_request_have_an_id_each(reported: sent.Recorded) -> None:
    """vLLM 0.32 reports each of ``n`` under the client's id, in one step or several, and counts each."""
    logger = vllm.Recording(CONFIG)
    steps = [["a"], ["b", "a"], ["a", None, None], ["b"]]
    for ids in steps:
        logger.record(None, SimpleNamespace(finished_requests=[New(FinishReason.STOP, each) for each in ids]))

    assert [each.get("request_id") for each in said(reported)] == ["a", "b", "1_a", "2_a", None, None, "1_b"]


def test_ids_remembered_are_bounded(reported: sent.Recorded) -> None:
    """The latest are kept."""
    logger = vllm.Recording(CONFIG)
    for number in range(vllm.IDS_MAX + 1):
        logger._own_id(str(number))

    assert len(logger._ids) == vllm.IDS_MAX
    assert [logger._own_id(each) for each in ("0", str(vllm.IDS_MAX))] == ["0", f"1_{vllm.IDS_MAX}"]


@pytest.mark.parametrize(
    ("command", "address"),
    [
        ("/bin/vllm serve m", "127.0.0.1:8000"),
        ("/bin/vllm serve m --port 9000", "127.0.0.1:9000"),
        ("/bin/vllm serve m --port=9000 --host 0.0.0.0", "127.0.0.1:9000"),
        ("/bin/vllm serve m --host=10.0.0.5", "10.0.0.5:8000"),
        ("/bin/vllm serve m --host fe80::1", "[fe80::1]:8000"),
        ("/bin/vllm serve m --host ::", "127.0.0.1:8000"),
        ("/x/vllm/entrypoints/openai/api_server.py --model m --port 1", "127.0.0.1:1"),
        ("/x/vllm/entrypoints/cli/main.py serve m", "127.0.0.1:8000"),
        ("/bin/vllm serve m --config c.yaml", None),
        ("/bin/vllm serve m --config c.yaml --port 9000", "127.0.0.1:9000"),
        ("/bin/vllm serve m --uds /run/vllm.sock", None),
        ("/bin/vllm serve m --data_parallel_multi_port_external_lb", None),
        ("/bin/vllm serve m --port", None),
        ("/bin/vllm bench serve", None),
        ("app.py --port 9000", None),
        ("", None),
    ],
)
def test_the_address_follows_from_the_command_line(command: str, address: str | None) -> None:
    """As the agent on this host sees it; unknown where the command line does not say."""
    assert vllm.address_of(command.split()) == address


def test_a_server_sends_its_address(reported: sent.Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    """From its own command line; an engine that is named is named."""
    monkeypatch.setattr("sys.argv", ["/bin/vllm", "serve", "m", "--port", "9000"])
    monkeypatch.setenv("FLEETPULSE_ENGINE_ID", "e-1")

    vllm.Recording(CONFIG).record(None, SimpleNamespace(finished_requests=[New(FinishReason.STOP)]))

    assert [(each["address"], each["engine_id"]) for each in said(reported)] == [("127.0.0.1:9000", "e-1")]


@pytest.mark.parametrize(
    ("command", "engine_id"),
    [
        ("/bin/vllm serve m --data-parallel-size 2", "e-1"),
        ("/bin/vllm serve m -dp 2 --port 9000", "e-1"),
        ("/bin/vllm serve m -dp 2 --data-parallel-rank 1 --port 9000", "e-1-1"),
        ("/bin/vllm serve m -dp 4 --data_parallel_hybrid_lb -dpr 1", "e-1-1"),
        ("app.py", "e-1-1"),
    ],
)
def test_ranks_behind_one_address_are_one_engine(command: str, engine_id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As their page is to the agent, which knows no other name. Ranks with servers of their own are told apart."""
    monkeypatch.setenv("FLEETPULSE_ENGINE_ID", "e-1")

    assert vllm.labels_of(CONFIG, 1, command.split())["engine_id"] == engine_id


def test_weight_types_are_spelled_as_the_agent_spells_them() -> None:
    """Requests and engines match by them; the SDK cannot import the agent's list."""
    assert dict(facts.PRECISIONS) == vllm.PRECISIONS


@pytest.mark.parametrize(
    ("quantization", "dtype", "precision"),
    [
        (None, "torch.bfloat16", "bf16"),
        (None, "torch.float16", "fp16"),
        ("fp8", "torch.bfloat16", "fp8"),
        ("AWQ", "torch.float16", "int4"),
        ("gptq", "torch.float16", "gptq"),
        (None, None, None),
    ],
)
def test_precision_is_the_quantisation_or_the_type(
    quantization: str | None, dtype: str | None, precision: str | None
) -> None:
    """In the one spelling."""
    config = SimpleNamespace(model_config=SimpleNamespace(quantization=quantization, dtype=dtype))

    assert vllm.labels_of(config, 0)["precision"] == precision


def test_the_entry_point_names_a_class_below_vllms(monkeypatch: pytest.MonkeyPatch) -> None:
    """As vLLM demands of it; made only now."""
    points = tomllib.loads((ROOT / "sdk" / "pyproject.toml").read_text())["project"]["entry-points"]
    module, _, name = points["vllm.stat_logger_plugins"]["fleetpulse"].partition(":")
    below = stand_in("vllm.v1.metrics.loggers", "StatLoggerBase", monkeypatch)
    vllm._logger_class.cache_clear()

    made = getattr(import_module(module), name)

    assert isinstance(made, type)
    assert issubclass(made, below)
    made(CONFIG, 0).record(None, None)
    vllm._logger_class.cache_clear()


def test_without_vllm_only_the_class_is_missing() -> None:
    """The module can be imported; other names are no names of it."""
    vllm._logger_class.cache_clear()

    with pytest.raises(ImportError):
        _ = vllm.RequestLogger
    with pytest.raises(AttributeError):
        _ = vllm.Nothing


def test_a_report_that_fails_costs_neither_the_server_nor_the_others(
    reported: sent.Recorded, caplog: pytest.LogCaptureFixture
) -> None:
    """vLLM calls from the loop that serves its clients. A warning says so, once."""
    odd = SimpleNamespace(finish_reason=FinishReason.STOP, num_generation_tokens=None, request_id="a")
    sound = New(FinishReason.STOP, request_id="b", num_generation_tokens=2)
    recording = vllm.Recording(CONFIG)

    for _ in range(2):
        recording.record(None, SimpleNamespace(finished_requests=[odd, sound]))
    recording.record(None, SimpleNamespace(finished_requests=5))

    assert [each["request_id"] for each in said(reported)] == ["b", "1_b"]
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_choices_that_engines_of_one_server_made_have_an_id_each(reported: sent.Recorded) -> None:
    """Data parallelism: an object for each engine, and the choices of a request on any of them."""
    for index in range(2):
        stats = SimpleNamespace(finished_requests=[New(FinishReason.STOP, "a")])
        vllm.Recording(CONFIG, index).record(None, stats)

    assert [each["request_id"] for each in said(reported)] == ["a", "1_a"]


@pytest.fixture(autouse=True)
def _no_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of other tests."""
    monkeypatch.setattr(vllm, "_ids", OrderedDict())
