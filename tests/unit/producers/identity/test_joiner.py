"""Requests get what is known of their engine, one by one and as lists; those without one are counted."""

from __future__ import annotations

import logging
from typing import Any

import orjson
import pytest

from producers.identity.directory import Directory
from producers.identity.joiner import Joiner, Times, address_in
from producers.requests.client_names import REQUESTED_CHARS_MAX
from runtime.counters import Counters
from schemas.contract.engines import Engine

A = Engine("a", "h-1", "a+b", ("h-1:8000",), model_version="r1", precision="bf16", started_ms=1_000)
B = Engine("b", "h-1", "b", ("h-1:8001",))
DIRECTORY = Directory([A, B], "h-1")
OK: dict[str, Any] = {"at_ms": 5_000, "e2e_us": 2_000_000, "status": "ok"}


@pytest.fixture
def counters() -> Counters:
    return Counters()


@pytest.fixture
def joiner(counters: Counters) -> Joiner:
    return Joiner("receiver", lambda: DIRECTORY, counters)


def unknown(counters: Counters) -> float:
    return counters.value("requests_without_engine", edge="receiver")


def test_a_row_gets_its_engine_and_whether_it_was_cold(joiner: Joiner, counters: Counters) -> None:
    """The second was received after the first had ended."""
    first, second = dict(OK), OK | {"at_ms": 9_000}

    assert joiner.join(first, "localhost:8000")
    assert joiner.join(second, "localhost:8000")

    joined = {"engine_id": "a", "placement_group": "a+b", "model_version": "r1", "precision": "bf16"}
    assert first == OK | joined | {"start": "cold"}
    assert second == OK | {"at_ms": 9_000} | joined | {"start": "warm"}
    assert unknown(counters) == 0


def test_a_row_without_a_duration_is_no_warm_one(joiner: Joiner) -> None:
    """When it was received is not known: as a log says that has the end of requests alone."""
    without = {"at_ms": 9_000, "e2e_us": None, "status": "ok"}
    joiner.join(dict(OK), "localhost:8000")

    assert joiner.join(without, "localhost:8000")
    assert without["start"] is None


def test_a_row_whose_engine_is_unknown_stays_as_it_is(joiner: Joiner, counters: Counters) -> None:
    """An id that somebody gave it too."""
    row = OK | {"engine_id": "mine"}

    assert not joiner.join(row, "localhost:8000")
    assert not joiner.join(dict(OK))

    assert row == OK | {"engine_id": "mine"}
    assert unknown(counters) == 2


def test_an_unknown_engine_is_logged_once_and_cut(joiner: Joiner, caplog: pytest.LogCaptureFixture) -> None:
    """A client may send a name of a megabyte: neither the log nor the memory holds all of it."""
    caplog.set_level(logging.INFO)
    for end in ("a", "b"):
        joiner.join(OK | {"engine_id": "x" * 1_000_000 + end})
    joiner.join(OK | {"engine_id": "y\n"})

    assert [vars(record)["engine"] for record in caplog.records] == [
        "x" * REQUESTED_CHARS_MAX,
        "y\N{REPLACEMENT CHARACTER}",
    ]


def test_values_of_any_type_do_not_break_it(joiner: Joiner) -> None:
    """Third parties send what they like; it is rejected later, with its reason."""
    row: dict[str, Any] = {"engine_id": None, "at_ms": "now", "e2e_us": None, "status": 7, "precision": []}

    assert joiner.join(row, "h-1:8000")
    assert row["start"] == "cold"
    assert not joiner.join({"engine_id": orjson.loads(b"[" * 1_000 + b"]" * 1_000)})
    assert address_in({"address": 5}) is None
    assert address_in({"address": "h:1"}) == "h:1"


def test_lists_are_joined_as_rows_are(joiner: Joiner, counters: Counters) -> None:
    """By address and by id, several engines and none; what a client sent stays; the address is taken out."""
    lists: dict[str, list[Any]] = {
        "address": ["h-1:8000", "h-1:8001", None, ["odd"], "h-1:8000", "h-1:8000"],
        "engine_id": [None, None, "a", "c", None, None],
        "precision": [None, None, "fp8", None, None, None],
        "status": ["ok"] * 6,
    }
    times: list[Times] = [(100, 2_000), (0, 1), (1_999, 3_000), (0, 1), (2_000, 3_000), (None, 3_000)]

    out = joiner.join_lists(lists, 6, lambda: times)

    assert "address" not in lists
    assert out == {
        "engine_id": ["a", "b", "a", "c", "a", "a"],
        "placement_group": ["a+b", "b", "a+b", None, "a+b", "a+b"],
        "model_version": ["r1", None, "r1", None, "r1", "r1"],
        "precision": ["bf16", None, "fp8", None, "bf16", "bf16"],
        "start": ["cold", None, "cold", None, "warm", None],
    }
    assert unknown(counters) == 1


def test_lists_without_any_known_engine_are_left_alone(joiner: Joiner, counters: Counters) -> None:
    """No column is made for nothing."""
    assert joiner.join_lists({"engine_id": ["x", None]}, 2, list) == {}
    assert unknown(counters) == 2


def test_an_engine_is_known_by_its_address(joiner: Joiner) -> None:
    """Metrics that name none are of nobody known."""
    assert [joiner.knows(address) for address in ("h-1:8001", "h-1:9", None)] == [True, False, False]


LLAMA = Engine("l", "h-1", "l", ("h-1:8080",), engine_kind="llamacpp", model="tiny.gguf")
VLLM = Engine("v", "h-1", "v", ("h-1:8000",), engine_kind="vllm", model="base")
SGLANG = Engine("s", "h-1", "s", ("h-1:30000",), engine_kind="sglang", model="qwen")
TGI = Engine("t", "h-1", "t", ("h-1:8081",), engine_kind="tgi", model="falcon")
NAMING = Directory([LLAMA, VLLM, SGLANG, TGI], "h-1")


@pytest.mark.parametrize(
    ("address", "model", "becomes"),
    [
        pytest.param("h-1:8080", "made-up", ("tiny.gguf", "made-up"), id="it answers to any name"),
        pytest.param("h-1:8080", "tiny.gguf", ("tiny.gguf", None), id="its own name"),
        pytest.param("h-1:8080", "__unknown__", ("__unknown__", None), id="a rejected request"),
        pytest.param("h-1:8000", "an-adapter", ("an-adapter", None), id="an engine that serves several"),
        pytest.param("h-1:30000", "made-up", ("qwen", "made-up"), id="SGLang does not look at it"),
        pytest.param("h-1:30000", "qwen:support", ("qwen:support", None), id="an adapter of SGLang"),
        pytest.param("h-1:8081", "tgi", ("falcon", "tgi"), id="what TGI's users write"),
        pytest.param("h-1:8081", "an-adapter", ("an-adapter", None), id="an adapter of TGI"),
        pytest.param("h-1:9", "made-up", ("made-up", None), id="no engine"),
    ],
)
def test_an_engine_that_answers_to_any_name_makes_no_series_of_it(
    address: str, model: str, becomes: tuple[str, str | None]
) -> None:
    """The model is the one it serves, and the name is kept beside it; one by one and as lists."""
    joiner = Joiner("proxy", lambda: NAMING)
    row = OK | {"model": model}
    lists: dict[str, list[Any]] = {"address": [address], "model": [model], "status": ["ok"]}

    joiner.join(row, address)
    lists |= joiner.join_lists(lists, 1, lambda: [(1_000, 2_000)])

    assert (row["model"], row.get("model_requested")) == becomes
    assert (lists["model"], lists.get("model_requested", [None])) == ([becomes[0]], [becomes[1]])
