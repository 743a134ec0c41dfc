"""Counted once: what makes reports of one request by several measurers one event. Pure.

A *whole* report is of a request as its client saw it (proxy, SDK, gateway); a plug-in's is of what the engine did for
it, one for each of ``n`` choices. Whole reports count, and take from the others what they lack; of several whole ones
the proxy's counts, else the SDK's. They meet by the request's id: a proxy has that of ``X-Request-ID``, which vLLM
takes over and prefixes with the API, and that of the answer where the engine makes it up; SDK and gateway have the
answer's ``id``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from schemas.events.event_types import LLM_REQUESTS

PLUGIN, GATEWAY, SDK, PROXY = "plugin", "gateway", "sdk", "proxy"
ID_LENGTH_MAX = 256
"""Longer ids meet nothing."""
_UNIQUE_LENGTH_MIN = 8

_WHOLE, _NUMBERED = "chatcmpl|transcribe|translate|generate-tokens", "cmpl|embd|score|classify|pooling"
_OF_ANSWER = re.compile(rf"(?:{_WHOLE}|{_NUMBERED})-(.+)")
_OF_ENGINE = re.compile(rf"(?:\d+_)?(?:(?:{_WHOLE})-(.+)|(?:{_NUMBERED})-(.+?)(?:-\d+)?|(.+)_\d+)")
"""vLLM 0.32: the plug-in's own number of a choice, the API's prefix, the number of a prompt in a list of them or of a
turn of the responses API, whose ids are the engine's own or named by the body: a proxy claims that one too, once it has
read it."""

_LABELS = ("tenant", "slo_class", "user_hash", "engine_id", "placement_group", "model_version", "precision", "address")
_OF_ONE_CHOICE = ("queue_us", "prefill_us", "decode_us", "input_tokens", "cached_tokens", "speculative_tokens")
_OUTPUT = ("output_tokens", "tokens_from")
_HIGH = {name: LLM_REQUESTS.field(name).high or 0 for name in (*_OF_ONE_CHOICE, "output_tokens")}
_LABEL_LENGTH_MAX = 128


def reporter_of(report: Mapping[str, Any]) -> str:
    """Who made a report that is not the proxy's: what names nobody else is the SDK's."""
    said = report.get("reported_by")
    return said if said in (PLUGIN, GATEWAY) else SDK


def common_id(request_id: str, reported_by: str) -> str:
    """The id under which reports of the request meet: ``request_id`` without what this measurer's engine put around."""
    if reported_by == PROXY:
        return request_id
    found = (_OF_ENGINE if reported_by == PLUGIN else _OF_ANSWER).fullmatch(request_id)
    return next((each for each in found.groups() if each), request_id) if found else request_id


def comes_back(name: str) -> bool:
    """Whether a common id is so short that other requests will have it, as the numbers that engines give (Ollama 0 to
    998, LMDeploy from 1): a report that is still there may be of the same request, one of before is not."""
    return len(name) < _UNIQUE_LENGTH_MIN


def lacking(row: Mapping[str, Any], report: Mapping[str, Any]) -> dict[str, Any]:
    """What another report of the same request adds to a whole one, field by field: nothing that the row knows.

    Latencies are never taken over: those of a client and those of an engine are of different moments. Amounts are not
    where there are several choices, of which a report has one. Tokens that were counted yield to those of the engine.
    What does not fit its field is left out: it would cost the row.
    """
    added = {name: report[name] for name in _LABELS if row.get(name) is None and _is_label(report.get(name))}
    if type(choices := row.get("choices")) is int and choices > 1:
        return added
    added |= {name: report[name] for name in _OF_ONE_CHOICE if row.get(name) is None and _is_amount(name, report)}
    counted = row.get("output_tokens") is None or row.get("tokens_from") == "counted"
    if counted and _is_amount("output_tokens", report) and report.get("tokens_from") == "engine":
        added |= {name: report[name] for name in _OUTPUT}
    return added


def _is_label(value: object) -> bool:
    return type(value) is str and 0 < len(value) <= _LABEL_LENGTH_MAX


def _is_amount(name: str, report: Mapping[str, Any]) -> bool:
    value = report.get(name)
    return type(value) is int and 0 <= value <= _HIGH[name]
