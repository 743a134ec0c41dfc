"""Names of models and tenants that no engine accepted open no series; a user's name is in no event."""

from __future__ import annotations

from typing import Any

import pytest

from producers.requests.client_names import (
    CONFIRMED_MAX,
    NAME_CHARS_MAX,
    REQUESTED_CHARS_MAX,
    UNPROVEN_MAX,
    ClientNames,
    shown,
)
from producers.requests.request_meta import client_fields
from producers.requests.tracker import MODEL_UNKNOWN


def judged(names: ClientNames, model: Any, http_status: Any, **more: Any) -> tuple[Any, Any]:
    row: dict[str, Any] = {"model": model, "http_status": http_status, **more}
    names.judge(row)
    return row["model"], row.get("model_requested")


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422])
def test_an_invented_name_is_unknown(status: int) -> None:
    """An engine that rejects the request confirms nothing; the name stays beside it."""
    assert judged(ClientNames(), "invented", status) == (MODEL_UNKNOWN, "invented")


def test_a_confirmed_name_stays_whatever_comes_later() -> None:
    """A bad request for a model that was answered before is one of that model."""
    names = ClientNames()

    assert judged(names, "m", 200) == ("m", None)
    assert judged(names, "m", 400) == ("m", None)
    assert judged(names, "n", 400) == (MODEL_UNKNOWN, "n")


@pytest.mark.parametrize("status", [None, 429, 499, 500, 502, 503, 504])
def test_other_ends_say_nothing_of_the_name(status: int | None) -> None:
    """An engine that is down, or full, may well have the model; that confirms it no more than it denies it."""
    names = ClientNames()

    assert judged(names, "m", status) == ("m", None)
    assert judged(names, "m", 404) == (MODEL_UNKNOWN, "m")


def test_without_an_http_status_the_ending_judges() -> None:
    """An SDK or a span that went well has none; a fault of the client is no proof of a model."""
    names = ClientNames()

    assert judged(names, "m", None, status="ok") == ("m", None)
    assert judged(names, "m", None, status="error", error_kind="client") == ("m", None)
    assert judged(names, "n", None, status="error", error_kind="client") == (MODEL_UNKNOWN, "n")
    assert judged(names, "n", None, status="error", error_kind="server") == ("n", None)


def test_a_request_that_named_no_model_is_unknown_without_a_name() -> None:
    """Nothing was sent, so nothing is kept."""
    assert judged(ClientNames(), MODEL_UNKNOWN, 400) == (MODEL_UNKNOWN, None)


REJECTIONS: dict[str, dict[str, Any]] = {
    **{str(status): {"http_status": status, "status": "error"} for status in (400, 401, 403, 404, 405, 413, 415, 422)},
    "aborted before an answer": {"status": "aborted"},
    "aborted, no output": {"status": "aborted", "output_tokens": 0},
    "aborted by a proxy in front": {"status": "aborted", "http_status": 499},
}


@pytest.mark.parametrize("end", REJECTIONS.values(), ids=REJECTIONS)
def test_invented_names_open_no_series_however_many(end: dict[str, Any]) -> None:
    """Neither a model nor a tenant that no engine accepted stands in an event; one that was accepted stays."""
    names = ClientNames()
    names.judge({"model": "m", "tenant": "t", "status": "ok"})
    rows = [{"model": f"m{n}", "tenant": f"t{n}", **end} for n in range(300)]
    known = {"model": "m", "tenant": "t", **end}

    for row in (*rows, known):
        names.judge(row)

    assert {(row["model"], row["tenant"]) for row in rows} == {(MODEL_UNKNOWN, None)}
    assert [row["model_requested"] for row in rows] == [f"m{n}" for n in range(300)]
    assert known == {"model": "m", "tenant": "t", **end}


BEGUN: dict[str, dict[str, Any]] = {
    "status": {"http_status": 200},
    "first token": {"ttft_us": 9},
    "output": {"output_tokens": 1},
    "reported by the engine": {"reported_by": "plugin"},
}


@pytest.mark.parametrize("begun", BEGUN.values(), ids=BEGUN)
def test_an_answer_that_began_accepts(begun: dict[str, Any]) -> None:
    """Who goes away amid an answer was served: the names are those of an engine's own work."""
    names = ClientNames()
    row = {"model": "m", "tenant": "t", "status": "aborted", "error_kind": "client", **begun}

    names.judge(row)

    assert (row["model"], row["tenant"], judged(names, "m", 404)) == ("m", "t", ("m", None))


def test_names_without_any_answer_are_few() -> None:
    """An outage names what it hits, up to a bound: whoever invents names meanwhile opens no more series than that."""
    names = ClientNames()
    rows = [{"model": f"m{n}", "tenant": f"t{n}", "http_status": 503} for n in range(UNPROVEN_MAX + 1)]
    for row in rows:
        names.judge(row)

    assert [(row["model"], row["tenant"]) for row in rows] == [
        *((f"m{n}", f"t{n}") for n in range(UNPROVEN_MAX)),
        (MODEL_UNKNOWN, None),
    ]
    assert judged(names, f"m{UNPROVEN_MAX}", 200) == (f"m{UNPROVEN_MAX}", None)
    assert judged(names, f"m{UNPROVEN_MAX}", 503) == (f"m{UNPROVEN_MAX}", None)


def test_names_are_bounded() -> None:
    """Those confirmed first stay; later ones are judged by their own answer alone. Long ones are no labels."""
    names = ClientNames()
    judged(names, "x" * (NAME_CHARS_MAX + 1), 200)
    for number in range(CONFIRMED_MAX + 1):
        judged(names, f"m-{number}", 200)

    assert judged(names, f"m-{CONFIRMED_MAX - 1}", 404) == (f"m-{CONFIRMED_MAX - 1}", None)
    assert judged(names, f"m-{CONFIRMED_MAX}", 404) == (MODEL_UNKNOWN, f"m-{CONFIRMED_MAX}")
    assert judged(names, f"m-{CONFIRMED_MAX}", 200) == (f"m-{CONFIRMED_MAX}", None)
    assert judged(names, "x" * (NAME_CHARS_MAX + 1), 404) == (MODEL_UNKNOWN, "x" * REQUESTED_CHARS_MAX)


def test_a_name_too_long_for_a_label_is_made_up_while_no_engine_answers() -> None:
    """It may have a megabyte: it is not remembered, and takes no place of a name that may be one."""
    names, long = ClientNames(), "x" * (NAME_CHARS_MAX + 1)
    row: dict[str, Any] = {"model": long, "tenant": long, "http_status": 503}
    for _ in range(UNPROVEN_MAX):
        names.judge(dict(row))
    names.judge(row)

    assert (row["model"], row["model_requested"], row["tenant"]) == (MODEL_UNKNOWN, "x" * REQUESTED_CHARS_MAX, None)
    assert judged(names, "x" * NAME_CHARS_MAX, 503) == ("x" * NAME_CHARS_MAX, None)


def test_many_rows_are_judged_as_one_by_one() -> None:
    """In order, whatever types a client sent; a name that a gateway sent beside a confirmed one stays."""
    models: list[Any] = ["m", "n", "m", ["m"], "n"]
    statuses: list[Any] = ["ok", "error", "error", "error", "error"]
    http: list[Any] = [None, 404, 404, "404", None]
    lists = {"model": models, "status": statuses, "http_status": http, "model_requested": ["alias", *[None] * 4]}
    names, singly = ClientNames(), ClientNames()

    found = lists | names.judge_lists(lists)

    each = zip(models, http, statuses, strict=True)
    assert found["model"] == [judged(singly, model, code, status=status)[0] for model, code, status in each]
    assert found["model"] == ["m", MODEL_UNKNOWN, "m", ["m"], "n"]
    assert found["model_requested"] == ["alias", "n", None, None, None]
    assert names.judge_lists({"model": ["m", "z"], "status": ["ok", "ok"]}) == {}
    tenants = {"model": ["m", "m"], "tenant": ["t", ["u"]], "http_status": [401, 401]}
    assert names.judge_lists(tenants) == {"tenant": [None, ["u"]]}


def test_a_name_that_is_kept_can_be_shown() -> None:
    """Cut, without control characters."""
    assert shown("a\nb\x1b[31m" + "c" * 200) == "a\ufffdb\ufffd[31m" + "c" * (REQUESTED_CHARS_MAX - 8)


def test_a_user_is_a_keyed_hash() -> None:
    """The same under one secret, another under another; 16 hex digits; not the hash of an API key of that text."""
    first, second = ClientNames(b"secret"), ClientNames(b"other")

    assert first.user_hash("ann@example.com") == ClientNames(b"secret").user_hash("ann@example.com")
    assert first.user_hash("ann@example.com") != second.user_hash("ann@example.com")
    assert first.user_hash("ann@example.com") != first.user_hash("bob@example.com")
    assert first.user_hash("ann@example.com") == "04497ba7f063dc34"


@pytest.mark.parametrize("user", [None, "", 7, ["ann"], "x" * (NAME_CHARS_MAX + 1)])
def test_what_is_no_name_has_no_hash(user: object) -> None:
    """A name cut short could be somebody else's."""
    assert ClientNames(b"secret").user_hash(user) is None


def test_by_default_users_are_dropped() -> None:
    """With what a client sent as a hash: it may be the name itself."""
    row = {"user": "ann", "user_hash": "ann", "model": "m"}

    ClientNames().hash_user(row)

    assert row == {"user_hash": None, "model": "m"}


@pytest.mark.parametrize(
    ("body", "user"),
    [
        (b'{"user":"u"}', "u"),
        (b'{"user":"u","safety_identifier":"s"}', "s"),
        (b'{"metadata":{"user_id":"a"}}', "a"),
        (b'{"metadata":"a","user":["u"],"safety_identifier":""}', None),
        (b"{}", None),
    ],
)
def test_the_user_is_read_from_the_body(body: bytes, user: str | None) -> None:
    """By the fields of OpenAI, the newer first, then Anthropic's."""
    assert client_fields("chat", body).user == user
