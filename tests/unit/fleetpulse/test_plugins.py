"""The thin modules for vLLM and LiteLLM, against the shapes that these hand over; neither is installed.

``FinishedRequestStats`` as in vLLM 0.11.0 (``OLD``) and 0.27 (``NEW``), ``vllm/v1/metrics/stats.py``; their values
follow ``IterationStats.update_from_finished_request`` there. ``StandardLoggingPayload`` as documented by LiteLLM.
"""

from __future__ import annotations

import json
import sys
import tomllib
from dataclasses import dataclass
from enum import IntEnum
from importlib import import_module
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from fleetpulse.plugins import litellm, vllm
from fleetpulse.track import handover
from fleetpulse.track.handover import HEADER
from tests.unit.producers.receiver import sent

ROOT = Path(__file__).resolve().parents[3]


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
    """``FinishedRequestStats`` of vLLM 0.27."""

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


@pytest.fixture
def reported(monkeypatch: pytest.MonkeyPatch) -> sent.Recorded:
    client = sent.Recorded()
    monkeypatch.setattr(handover, "_default", client)
    return client


def said(client: sent.Recorded) -> list[dict[str, Any]]:
    return [json.loads(data[-HEADER.unpack_from(data)[3] :]) for data in client.sent]


def test_a_finished_request_of_vllm_is_told_whole(reported: sent.Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
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
            "precision": "bfloat16",
            "engine_id": "e-1-2",
            "request_id": "cmpl-7",
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
    told = vllm.fields_of(New(reason))

    assert (told["status"], told["error_kind"], told["finish_reason"]) == (status, error_kind, finish_reason)


def test_what_an_older_vllm_lacks_is_unknown() -> None:
    """No id, no cached tokens; the rest is there."""
    told = vllm.fields_of(Old(FinishReason.LENGTH, e2e_latency=0.5, num_prompt_tokens=3, num_generation_tokens=2))

    assert (told["request_id"], told["cached_tokens"], told["input_tokens"], told["e2e_us"]) == (None, None, 3, 500_000)


def test_phases_that_never_began_are_unknown() -> None:
    """A request that ended in the queue: moments of 0 make negative and huge differences there."""
    told = vllm.fields_of(
        New(FinishReason.ABORT, e2e_latency=2.0, queued_time=-86_400.5, prefill_time=0.0, decode_time=0.0)
    )

    assert {name: told[name] for name in ("queue_us", "prefill_us", "decode_us", "tpot_us")} == dict.fromkeys(
        ("queue_us", "prefill_us", "decode_us", "tpot_us")
    )
    assert "ttft_us" not in told


def test_one_token_has_no_time_per_token() -> None:
    """vLLM says 0 there; its first token is its last."""
    told = vllm.fields_of(New(FinishReason.LENGTH, e2e_latency=0.2, num_generation_tokens=1))

    assert (told["tpot_us"], told["ttft_us"], told["decode_us"]) == (None, 200_000, 0)


@pytest.mark.parametrize(
    "stats", [None, SimpleNamespace(), SimpleNamespace(finished_requests=[]), SimpleNamespace(finished_requests=None)]
)
def test_a_step_in_which_nothing_ended_tells_nothing(reported: sent.Recorded, stats: Any) -> None:
    """And every signature of ``record`` is taken."""
    logger = vllm.Recording(CONFIG)
    logger.record(None, stats)
    logger.record(None, stats, 0)
    logger.record(scheduler_stats=None, iteration_stats=stats, mm_cache_stats=None, engine_idx=0)
    logger.log_engine_initialized()
    logger.log()

    assert reported.sent == []


def test_a_configuration_of_another_shape_harms_nothing(reported: sent.Recorded) -> None:
    """The request is told without its labels."""
    vllm.Recording(object()).record(None, SimpleNamespace(finished_requests=[New(FinishReason.STOP)]))

    assert [each.get("model") for each in said(reported)] == [None]


def base(module: str, name: str, monkeypatch: pytest.MonkeyPatch) -> type:
    """A stand-in for a class of another package."""
    made = type(name, (), {})
    parts = module.split(".")
    for end in range(1, len(parts) + 1):
        stand_in = ModuleType(".".join(parts[:end]))
        stand_in.__path__ = []
        monkeypatch.setitem(sys.modules, stand_in.__name__, stand_in)
    setattr(sys.modules[module], name, made)
    return made


def test_the_entry_point_names_a_class_below_vllms(monkeypatch: pytest.MonkeyPatch) -> None:
    """As vLLM demands of it; made only now."""
    points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    module, _, name = points["vllm.stat_logger_plugins"]["fleetpulse"].partition(":")
    below = base("vllm.v1.metrics.loggers", "StatLoggerBase", monkeypatch)
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


PAYLOAD: dict[str, Any] = {
    "id": "chatcmpl-9",
    "call_type": "acompletion",
    "status": "success",
    "stream": True,
    "startTime": 100.0,
    "completionStartTime": 100.25,
    "endTime": 102.0,
    "model": "openai/m",
    "model_group": "m",
    "model_id": "deployment-1",
    "prompt_tokens": 9,
    "completion_tokens": 4,
    "metadata": {"user_api_key_hash": "hash", "user_api_key_alias": "alias", "user_api_key_team_id": None},
}
ANSWER = SimpleNamespace(
    choices=[SimpleNamespace(finish_reason="stop")],
    usage=SimpleNamespace(prompt_tokens_details=SimpleNamespace(cached_tokens=8), completion_tokens_details=None),
)


def details(**changed: Any) -> dict[str, Any]:
    return {"litellm_call_id": "call-1", "standard_logging_object": PAYLOAD | changed}


async def test_a_call_of_litellm_is_told_once(reported: sent.Recorded) -> None:
    """By the synchronous and the asynchronous callback together; the next attempt of the same call is another."""
    logger = litellm.Reporting()

    logger.log_success_event(details(), ANSWER, None, None)
    await logger.async_log_success_event(details(), ANSWER, None, None)
    await logger.async_log_success_event(details(endTime=103.0), ANSWER, None, None)

    assert said(reported)[0] == {
        "status": "ok",
        "finish_reason": "stop",
        "api": "chat",
        "model": "m",
        "tenant": "alias",
        "engine_id": "deployment-1",
        "request_id": "chatcmpl-9",
        "e2e_us": 2_000_000,
        "ttft_us": 250_000,
        "input_tokens": 9,
        "cached_tokens": 8,
        "output_tokens": 4,
        "tokens_from": "engine",
    }
    assert [HEADER.unpack_from(data)[11] for data in reported.sent] == [102_000, 103_000]


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"error_information": {"error_code": "429"}}, ("rejected", "overload", 429)),
        ({"error_information": {"error_code": "500"}}, ("error", "server", 500)),
        ({"error_information": {"error_code": ""}}, ("error", "other", None)),
        ({}, ("error", "other", None)),
    ],
)
async def test_a_failure_of_litellm_by_its_code(
    reported: sent.Recorded, changed: dict[str, Any], expected: tuple[str, str, int | None]
) -> None:
    """As any other client sees it."""
    failed = details(status="failure", **changed)

    await litellm.Reporting().async_log_failure_event(failed, None, None, None)

    (told,) = said(reported)
    assert (told["status"], told["error_kind"], told.get("http_status")) == expected


def test_a_failure_with_its_exception(reported: sent.Recorded) -> None:
    """The exception says more than the payload."""
    litellm.Reporting().log_failure_event(details(status="failure") | {"exception": TimeoutError()}, None, None, None)

    assert [each["status"] for each in said(reported)] == ["timeout"]


def test_what_was_not_streamed_has_no_first_token() -> None:
    """LiteLLM repeats the end there."""
    assert litellm.fields_of(details(stream=False), ANSWER)["ttft_us"] is None


@pytest.mark.parametrize(
    "given",
    [
        None,
        {},
        {"standard_logging_object": None},
        {"standard_logging_object": 5},
        "x",
        {"litellm_call_id": ["no", "id"]},
        {"standard_logging_object": {"endTime": float("inf")}},
    ],
)
def test_details_of_another_shape_harm_nothing(reported: sent.Recorded, given: Any) -> None:
    """Nothing is raised into the gateway."""
    litellm.Reporting().log_success_event(given, None, None, None)

    assert len(reported.sent) <= 1


def test_the_callback_is_below_litellms(monkeypatch: pytest.MonkeyPatch) -> None:
    """The class and an instance of it, to be named in a configuration."""
    below = base("litellm.integrations.custom_logger", "CustomLogger", monkeypatch)
    litellm._logger_class.cache_clear()
    litellm._logger.cache_clear()

    assert issubclass(litellm.RequestLogger, below)
    assert isinstance(litellm.request_logger, litellm.RequestLogger)
    with pytest.raises(AttributeError):
        _ = litellm.Nothing
    litellm._logger_class.cache_clear()
    litellm._logger.cache_clear()
