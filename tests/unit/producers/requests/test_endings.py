from __future__ import annotations

from itertools import permutations, product
from typing import Any

import pytest

from producers.requests.endings import (
    FINISH_REASON_OF,
    Ending,
    How,
    Verdict,
    finish_reason_of,
    gravest,
    kind_of_error,
    stop_of,
    verdict,
)
from schemas.events.event_types import ERROR_KINDS, FINISH_REASONS, STATUSES


@pytest.mark.parametrize(
    ("how", "http_status", "error_kind", "finish_reason", "expected"),
    [
        pytest.param(How.COMPLETE, 200, None, "stop", ("ok", None), id="a good answer"),
        pytest.param(How.COMPLETE, None, None, None, ("ok", None), id="no HTTP at all"),
        pytest.param(How.COMPLETE, 200, None, "length", ("ok", None), id="cut at the limit is good"),
        pytest.param(How.COMPLETE, 200, None, "abort", ("aborted", None), id="the engine says abort"),
        pytest.param(How.COMPLETE, 200, None, "error", ("error", "server"), id="the engine says error"),
        pytest.param(How.COMPLETE, 200, "oom", None, ("error", "oom"), id="an error inside a stream"),
        pytest.param(How.COMPLETE, 200, "overload", None, ("rejected", "overload"), id="overload inside a stream"),
        pytest.param(How.COMPLETE, 200, "timeout", None, ("timeout", "timeout"), id="timeout inside a stream"),
        pytest.param(How.COMPLETE, 400, None, None, ("error", "client"), id="400"),
        pytest.param(How.COMPLETE, 404, "server", None, ("error", "client"), id="404 whatever its body says"),
        pytest.param(How.COMPLETE, 408, None, None, ("timeout", "timeout"), id="408"),
        pytest.param(How.COMPLETE, 429, "client", None, ("rejected", "overload"), id="429 whatever its body says"),
        pytest.param(How.COMPLETE, 499, None, None, ("aborted", None), id="499"),
        pytest.param(How.COMPLETE, 500, None, None, ("error", "server"), id="500"),
        pytest.param(How.COMPLETE, 500, "oom", None, ("error", "oom"), id="500 whose body knows why"),
        pytest.param(How.COMPLETE, 500, "other", None, ("error", "server"), id="500 whose body does not"),
        pytest.param(How.COMPLETE, 502, None, None, ("error", "engine_lost"), id="502"),
        pytest.param(How.COMPLETE, 503, None, None, ("rejected", "overload"), id="503"),
        pytest.param(How.COMPLETE, 504, None, None, ("timeout", "timeout"), id="504"),
        pytest.param(How.CLIENT_GONE, 200, None, None, ("aborted", None), id="the client went away"),
        pytest.param(How.CLIENT_GONE, 429, None, None, ("rejected", "overload"), id="away after it was refused"),
        pytest.param(How.CLIENT_GONE, 200, "oom", None, ("error", "oom"), id="away after an error"),
        pytest.param(How.ENGINE_LOST, 200, None, None, ("error", "engine_lost"), id="broken in the middle"),
        pytest.param(How.UNREACHABLE, 502, None, None, ("error", "network"), id="no connection"),
        pytest.param(How.TIMEOUT, 200, None, None, ("timeout", "timeout"), id="our own limit"),
        pytest.param(How.REFUSED, 503, None, None, ("rejected", "overload"), id="our own queue is full"),
        pytest.param(How.BAD_REQUEST, 413, None, None, ("error", "client"), id="refused for what was sent"),
        pytest.param(How.FAILED, 500, None, None, ("error", "other"), id="our own fault"),
    ],
)
def test_the_table_of_endings(
    how: How, http_status: int | None, error_kind: str | None, finish_reason: str | None, expected: tuple[str, Any]
) -> None:
    """Transport, HTTP status, error inside and finish reason give status and error kind."""
    assert verdict(Ending(how), http_status, error_kind, finish_reason) == Verdict(*expected)


def test_a_known_error_kind_replaces_the_tables_but_makes_no_failure() -> None:
    """Who knows more may say why; a good or aborted request stays what it is."""
    assert verdict(Ending(How.UNREACHABLE, "engine_lost"), None, None, None) == ("error", "engine_lost")
    assert verdict(Ending(How.COMPLETE, "oom"), 200, None, "stop") == ("ok", None)
    assert verdict(Ending(How.CLIENT_GONE, "oom"), 200, None, None) == ("aborted", None)


@pytest.mark.parametrize("code", [301, 302, 307, 308])
def test_a_redirect_is_no_answer(code: int) -> None:
    """Nothing was generated: the client is sent elsewhere."""
    assert verdict(Ending(How.COMPLETE), code, None, None) == ("error", "other")


def test_every_combination_stays_inside_the_closed_sets() -> None:
    """A failure names its kind, success and abort name none."""
    codes = (None, 100, 200, 302, 400, 401, 408, 418, 429, 499, 500, 502, 503, 504, 529, 599)
    for how, code, kind, reason in product(How, codes, (None, *ERROR_KINDS), (None, *FINISH_REASONS)):
        status, error_kind = verdict(Ending(how), code, kind, reason)

        assert status in STATUSES
        assert (error_kind in ERROR_KINDS) if status not in ("ok", "aborted") else error_kind is None
        assert stop_of(status, error_kind) in (None, *FINISH_REASONS)


@pytest.mark.parametrize(
    ("reported", "ours"),
    [
        ("STOP", "stop"),
        ("eos_token", "stop"),
        ("abort", "abort"),
        ("model_context_window_exceeded", "length"),
        ("x", "other"),
    ],
)
def test_finish_reasons_in_our_words(reported: str, ours: str) -> None:
    """Case is of no matter; what is unknown is other."""
    assert finish_reason_of(reported) == ours
    assert set(FINISH_REASON_OF.values()) <= set(FINISH_REASONS)


def test_the_gravest_reason_stands_for_all_choices() -> None:
    """In whatever order they came."""
    assert {gravest(list(order)) for order in permutations(["stop", "length", "tool_calls"])} == {"length"}
    assert [gravest([reason, "stop"]) for reason in FINISH_REASONS] == list(FINISH_REASONS)
    assert gravest([]) is None


@pytest.mark.parametrize(
    ("status", "error_kind", "reason"),
    [
        ("aborted", None, "abort"),
        ("error", "oom", "error"),
        ("error", "client", None),
        ("timeout", "timeout", None),
        ("ok", None, None),
    ],
)
def test_the_finish_reason_where_none_was_told(status: str, error_kind: str | None, reason: str | None) -> None:
    """Generation that broke ended in abort or error; what never began has no reason."""
    assert stop_of(status, error_kind) == reason


@pytest.mark.parametrize(
    ("reported", "kind", "ours"),
    [
        pytest.param({"message": "m", "type": "BadRequestError", "code": 400}, None, "client", id="vLLM, 400"),
        pytest.param(
            {"message": "CUDA out of memory", "type": "InternalServerError", "code": 500}, None, "oom", id="oom"
        ),
        pytest.param({"message": "no room for a bloom filter"}, None, "server", id="oom within a word"),
        pytest.param({"message": "worker died", "type": "cuda_oom"}, None, "oom", id="oom behind an underscore"),
        pytest.param({"type": "OOMError"}, None, "oom", id="the name of an error"),
        pytest.param({"message": "x", "code": 429}, None, "overload", id="by code"),
        pytest.param({"code": 418}, None, "client", id="by class of code"),
        pytest.param({"code": 500}, None, "server", id="500"),
        pytest.param({"code": "rate_limit_exceeded"}, None, "overload", id="code in words"),
        pytest.param({"type": "server_error", "message": "it timed out"}, None, "timeout", id="the message knows more"),
        pytest.param("Request failed during generation", "generation", "server", id="TGI"),
        pytest.param("Model is overloaded", "overloaded", "overload", id="TGI, overloaded"),
        pytest.param({"message": "EngineDeadError"}, None, "engine_lost", id="vLLM, engine dead"),
        pytest.param({"message": "no idea"}, None, "server", id="words that say nothing"),
        pytest.param({}, None, "other", id="an empty object"),
        pytest.param(True, None, "other", id="no object"),
        pytest.param({"code": True, "message": 5}, 7, "other", id="wrong types"),
        pytest.param({"code": 499}, None, "client", id="a code that is no failure of ours"),
    ],
)
def test_kinds_of_errors_in_an_answer(reported: object, kind: object, ours: str) -> None:
    """Code, then words of type, code and message."""
    assert kind_of_error(reported, kind) == ours
