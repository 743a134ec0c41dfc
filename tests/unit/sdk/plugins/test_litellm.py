"""The callback for LiteLLM, against ``StandardLoggingPayload`` as LiteLLM documents it; it is not installed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from fleetpulse_track.handover import HEADER
from fleetpulse_track.plugins import litellm
from producers.receiver.once import HELD_S, Once
from tests.unit.producers.receiver import sent
from tests.unit.sdk.plugins.stand_ins import said, stand_in

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


async def test_a_call_of_litellm_is_reported_once(reported: sent.Recorded) -> None:
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
        "request_id": "chatcmpl-9",
        "reported_by": "gateway",
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
    failed = details(status="failure", prompt_tokens=0, completion_tokens=0, **changed)

    await litellm.Reporting().async_log_failure_event(failed, None, None, None)

    (fields,) = said(reported)
    assert (fields["status"], fields["error_kind"], fields.get("http_status")) == expected
    assert not {"input_tokens", "output_tokens"} & fields.keys()


def test_a_failure_with_its_exception(reported: sent.Recorded) -> None:
    """The exception says more than the payload."""
    litellm.Reporting().log_failure_event(details(status="failure") | {"exception": TimeoutError()}, None, None, None)

    assert [each["status"] for each in said(reported)] == ["timeout"]


@pytest.mark.parametrize("named", ["call-1", None])
def test_attempts_of_a_call_are_requests_of_their_own(reported: sent.Recorded, named: str | None) -> None:
    """LiteLLM gives those that failed, and answers without an id, the id of the call, or none: the agent takes reports
    of one id for one request."""
    logger = litellm.Reporting()
    for ended_s in (101.5, 102.5):
        logger.log_failure_event(details(id=named, status="failure", endTime=ended_s), None, None, None)
    logger.log_success_event(details(id=named, endTime=103.0), ANSWER, None, None)
    logger.log_success_event(details(endTime=104.0), ANSWER, None, None)

    assert [each["request_id"] for each in said(reported)] == [
        "call-1-101.5",
        "call-1-102.5",
        "call-1-103.0",
        "chatcmpl-9",
    ]
    once, passed = Once(), list[bytes]()
    for tens, (fields, datagram) in enumerate(zip(said(reported), list(reported.sent), strict=True)):
        once.judge([fields], [datagram].__getitem__, 10.0 * tens)
        passed += once.due(10.0 * tens + HELD_S)
    assert passed == reported.sent


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
    below = stand_in("litellm.integrations.custom_logger", "CustomLogger", monkeypatch)
    litellm._logger_class.cache_clear()
    litellm._logger.cache_clear()

    assert issubclass(litellm.RequestLogger, below)
    assert isinstance(litellm.request_logger, litellm.RequestLogger)
    with pytest.raises(AttributeError):
        _ = litellm.Nothing
    litellm._logger_class.cache_clear()
    litellm._logger.cache_clear()


def test_an_answer_from_litellms_cache_is_no_request(reported: sent.Recorded) -> None:
    """No engine generated anything; its payload repeats the tokens of the answer that was kept."""
    litellm.Reporting().log_success_event(details(cache_hit=True), ANSWER, None, None)
    assert said(reported) == []

    litellm.Reporting().log_success_event(details(cache_hit=False), ANSWER, None, None)
    assert len(said(reported)) == 1


@pytest.mark.parametrize(
    ("base", "address"),
    [
        ("http://engine:8000/v1", "engine:8000"),
        ("https://engine/v1", "engine:443"),
        ("http://engine", "engine:80"),
        ("http://[::1]:8000/v1", "[::1]:8000"),
        ("engine:8000", None),
        ("", None),
        (None, None),
        (7, None),
        ("http://engine:x/", None),
    ],
)
def test_the_engine_is_known_by_its_address(base: Any, address: str | None) -> None:
    """LiteLLM's own id of a deployment is no engine that the agent knows."""
    fields = litellm.fields_of(details(api_base=base), ANSWER)

    assert (fields["address"], fields.get("engine_id")) == (address, None)


def test_several_choices_are_said() -> None:
    """An engine's report of one of them is not the amount of all."""
    assert litellm.fields_of(details(), SimpleNamespace(choices=[SimpleNamespace()] * 3))["choices"] == 3
