"""Datagrams to columns: whole rows, whoever says what."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from producers.batch import batches_of
from producers.identity.directory import Directory
from producers.identity.joiner import Joiner
from producers.receiver.datagram import read
from producers.receiver.fold import Folded, Where, fold
from runtime.counters import Counters
from schemas.codec.build import rows_of
from schemas.contract.engines import Engine
from schemas.events.event_types import LLM_REQUESTS
from schemas.sketch import bin_of
from tests.unit.producers.receiver import sent

WHERE = Where("h-1", "c-1", None)
NOTHING: dict[str, Any] = {field.name: None for field in LLM_REQUESTS.fields} | {"itl_bins": {}}


def folded(client: sent.Recorded, where: Where = WHERE) -> Folded:
    buffer, ends = sent.together(client.sent)
    return fold(buffer, read(buffer, ends), where)


def rows(result: Folded) -> list[dict[str, Any]]:
    return [row for _, block in result.blocks for row in rows_of(LLM_REQUESTS.fields, block)]


def row_of(*args: Any, where: Where = WHERE, **said: Any) -> dict[str, Any]:
    client = sent.Recorded()
    client.hand_over(sent.finished(*args, **said))
    (row,) = rows(folded(client, where))
    return row


def bins_of(*values_us: int) -> dict[int, int]:
    keys, counts = np.unique(bin_of(np.array(values_us, np.int64)), return_counts=True)
    return dict(zip(keys.tolist(), counts.tolist(), strict=True))


def test_a_stream_becomes_a_whole_row() -> None:
    """Latencies follow from the times, the rest from what is said and from the agent."""
    row = row_of([1_000, 200, 300], end_us=50, model="m", tenant="t", input_tokens=7, trace_id="ab" * 16)

    assert row == NOTHING | {
        "at_ms": sent.AT_MS,
        "ttft_us": 1_000,
        "ttfo_us": 1_000,
        "tpot_us": 250,
        "e2e_us": 1_550,
        "icl_max_us": 300,
        "itl_bins": bins_of(200, 300),
        "chunks": 3,
        "input_tokens": 7,
        "output_tokens": 3,
        "tokens_from": "counted",
        "model": "m",
        "tenant": "t",
        "status": "ok",
        "host": "h-1",
        "cluster": "c-1",
        "origin": "measured",
        "reported_by": "sdk",
        "request_id": f"{sent.PID:x}-{sent.START_NS:x}-0",
        "trace_id": "ab" * 16,
    }


def test_a_request_without_chunks_has_an_end_only() -> None:
    """Not streamed: no first token, no sketch, and nothing is made up."""
    row = row_of(end_us=900, model="m", output_tokens=12, request_id="r")

    assert row == NOTHING | {
        "at_ms": sent.AT_MS,
        "e2e_us": 900,
        "output_tokens": 12,
        "tokens_from": "engine",
        "model": "m",
        "status": "ok",
        "host": "h-1",
        "cluster": "c-1",
        "origin": "measured",
        "reported_by": "sdk",
        "request_id": "r",
    }


def test_what_others_measured_goes_before_what_was_not() -> None:
    """A report of a plugin: no clock of its own, latencies as said."""
    client = sent.Recorded()
    text = b'{"status":"ok","model":"m","e2e_us":5000,"ttft_us":1000,"request_id":"r"}'
    client.hand_over(sent.Finished(0, 0, 0, sent.AT_MS, 0, 0, text, len(text)))

    (row,) = rows(folded(client))

    assert {name: row[name] for name in ("e2e_us", "ttft_us", "tpot_us", "chunks", "output_tokens", "itl_bins")} == {
        "e2e_us": 5_000,
        "ttft_us": 1_000,
        "tpot_us": None,
        "chunks": None,
        "output_tokens": None,
        "itl_bins": {},
    }


def test_usage_spreads_over_chunks_that_hold_several_tokens() -> None:
    """The engine reported 9 tokens in 3 chunks: gaps count per token."""
    row = row_of([100, 300, 600], model="m", output_tokens=9)

    assert (row["tpot_us"], row["chunks"], row["itl_bins"]) == (112, 3, bins_of(*[100] * 3, *[200] * 3))


def test_reasoning_and_choices_follow_from_marks() -> None:
    """The first output token is the first that is no reasoning; gaps are within a choice."""
    marks = [sent.mark(reasoning=True), sent.mark(), sent.mark(choice=1), sent.mark()]

    row = row_of([10, 20, 30, 40], marks=marks, model="m")

    assert (row["ttft_us"], row["ttfo_us"], row["itl_bins"]) == (10, 30, bins_of(20, 70))


def test_a_merged_stream_tells_how_many_chunks_there_were() -> None:
    """The count is that of all chunks, the longest gap as the SDK says."""
    row = row_of([10, 20, 30], marks=[sent.mark(1), sent.mark(2), sent.mark(2)], merged=2, model="m", icl_max_us=17)

    assert (row["chunks"], row["icl_max_us"], row["output_tokens"]) == (5, 17, 5)
    assert row["itl_bins"] == bins_of(10, 10, 15, 15)


def test_an_output_of_zero_is_ignored_where_chunks_came() -> None:
    """Counted from the chunks then."""
    row = row_of([10, 20], model="m", output_tokens=0)

    assert (row["output_tokens"], row["tokens_from"]) == (2, "counted")


def test_a_request_cannot_say_where_it_ran() -> None:
    """Host, region, origin and time are the agent's, whatever a forged datagram says."""
    client = sent.Recorded()
    text = b'{"status":"ok","model":"m","host":"h-9","region":"r-9","origin":"simulated","at_ms":1,"itl_bins":{"1":9}}'
    client.hand_over(sent.Finished(0, 0, 0, sent.AT_MS, 0, 0, text, len(text)))

    (row,) = rows(folded(client))

    found = (row["host"], row["region"], row["origin"], row["at_ms"], row["itl_bins"])
    assert found == ("h-1", None, "measured", sent.AT_MS, {})


def test_a_request_without_a_model_is_kept() -> None:
    """The model is required: unknown is a word there."""
    assert row_of()["model"] == "__unknown__"


def test_rows_stand_with_their_key() -> None:
    """By placement group, from the client or the engine's, else by host; in order within."""
    client = sent.Recorded()
    for name, said in (("a", {"placement_group": "g"}), ("b", {}), ("c", {"engine_id": "e"}), ("d", {})):
        client.hand_over(sent.finished([5], model=name, **said))
    where = Where("h-1", joiner=Joiner("receiver", lambda: Directory([Engine("e", "h-1", "g")])))

    result = folded(client, where)

    found = [(key, [row["model"] for row in rows_of(LLM_REQUESTS.fields, block)]) for key, block in result.blocks]
    assert sorted(found) == [(b"g", ["a", "c"]), (b"h-1", ["b", "d"])]
    assert result.events == 4


def test_only_a_request_whose_duration_is_known_is_warm() -> None:
    """By its times, or as its client says; when another was received is not known."""
    client = sent.Recorded()
    client.hand_over(sent.finished([5], model="m", engine_id="e"))
    for said in ({"e2e_us": 5_000}, {}):
        text = json.dumps({"model": "m", "engine_id": "e", "status": "ok", **said}).encode()
        client.hand_over(sent.Finished(0, 0, 0, sent.AT_MS, 0, 0, text, len(text)))
    engine = Engine("e", "h-1", "g", started_ms=1_000, warm_ms=2_000)

    result = folded(client, Where("h-1", joiner=Joiner("receiver", lambda: Directory([engine]))))

    assert [row["start"] for row in rows(result)] == ["warm", "warm", None]


@pytest.mark.parametrize("text", [b"", b"[]", b"null", b'{"a":', b'"x"', b"\xff", b'{"a":1}{"b":2}'])
def test_json_that_is_no_object_is_counted(text: bytes) -> None:
    """The neighbour is taken."""
    client = sent.Recorded()
    client.hand_over(sent.Finished(0, 0, 0, sent.AT_MS, 0, 0, text, len(text)))
    client.hand_over(sent.finished([5, 5], model="good"))

    result = folded(client)

    assert (result.broken, [row["model"] for row in rows(result)]) == (1, ["good"])
    assert rows(result)[0]["chunks"] == 2


def test_values_of_another_kind_are_put_apart() -> None:
    """As plain rows with what the agent says, for the pipeline to reject; the neighbour is taken."""
    client = sent.Recorded()
    text = b'{"status":"ok","model":"m","input_tokens":"many","request_id":"r","host":"h-9"}'
    client.hand_over(sent.Finished(0, 0, 0, sent.AT_MS, 0, 0, text, len(text)))
    client.hand_over(sent.finished([5], model="good"))

    result = folded(client)

    assert [row["model"] for row in rows(result)] == ["good"]
    assert list(result.unfit) == [
        {
            "status": "ok",
            "model": "m",
            "input_tokens": "many",
            "request_id": "r",
            "reported_by": "sdk",
            "at_ms": sent.AT_MS,
            "host": "h-1",
            "cluster": "c-1",
            "region": None,
            "origin": "measured",
        }
    ]


_CLOCKS = st.sampled_from([0, 1, sent.BEGIN_NS, 2**62, 2**63, 2**64 - 1]) | st.integers(0, 2**64 - 1)
_VALUES = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=3) | st.just([])


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.lists(_CLOCKS, max_size=5),
            st.lists(st.integers(0, 2**32 - 1), min_size=5, max_size=5) | st.none(),
            st.integers(0, 2**62),
            st.integers(0, 2**62),
            st.dictionaries(st.sampled_from([field.name for field in LLM_REQUESTS.fields]), _VALUES, max_size=6),
        ),
        max_size=5,
    )
)
def test_absurd_numbers_raise_nothing(requests: list[Any]) -> None:
    """Clocks that jump, marks of any bits, values of any kind: each request is taken or put apart, and can be sent."""
    client = sent.Recorded()
    for at_ns, marks, begin_ns, end_ns, said in requests:
        text = json.dumps(said).encode()
        body = np.array(at_ns, "<u8").tobytes()
        body += b"" if marks is None else np.array(marks[: len(at_ns)], "<u4").tobytes()
        made = sent.Finished(
            int(marks is not None), len(at_ns), len(at_ns), sent.AT_MS, begin_ns, end_ns, body + text, len(text)
        )
        client.hand_over(made)

    result = folded(client)

    assert result.events + len(result.unfit) + result.broken == len(requests)
    for key, block in result.blocks:
        assert sum(batch.count for batch in batches_of(LLM_REQUESTS, key, block)) == block.rows


def test_nothing_folds_to_nothing() -> None:
    """No datagrams: no blocks."""
    client = sent.Recorded()

    assert folded(client) == Folded([], [], 0)


def test_a_total_is_spread_over_merged_chunks_by_how_many_they_were() -> None:
    """As over chunks that were not merged: the latencies of a stream do not jump where merging begins."""
    marks = [sent.mark(1), sent.mark(2), sent.mark(2)]
    merged = row_of([10, 20, 32], marks=marks, merged=2, model="m", output_tokens=10)
    plain = row_of([10, 10, 10, 16, 16], model="m", output_tokens=10)

    assert merged["itl_bins"] == plain["itl_bins"] == bins_of(5, 5, 5, 5, 8, 8, 8, 8)
    assert merged["tpot_us"] == plain["tpot_us"]


def test_tokens_that_a_caller_reported_are_not_spread_when_they_were_merged() -> None:
    """Their sum is not how many chunks there were."""
    marks = [sent.mark(1), sent.mark(4), sent.mark(2)]
    row = row_of([10, 20, 30], marks=marks, merged=2, model="m", output_tokens=70)

    assert row["itl_bins"] == bins_of(5, 5, 5, 5, 15, 15)


@pytest.mark.parametrize("said", ["address", "engine_id"])
@pytest.mark.parametrize("name", ["127.0.0.1:8000", "localhost:8000", "[::1]:8000", "0.0.0.0:8000"])
def test_a_loopback_address_that_is_said_in_another_network_is_of_the_engine_there(said: str, name: str) -> None:
    """Not of that of this host: two containers both say port 8000. Of one that is not known it is of none."""
    client = sent.Recorded()
    for model in ("here", "published", "unknown"):
        client.hand_over(sent.finished([5], model=model, **{said: name}))
    client.hand_over(sent.finished([5], model="named", **{said: "h-1:8001"}))
    engines = [Engine("a", "h-1", "a", ("h-1:8000",)), Engine("b", "h-1", "b", ("h-1:8001",))]
    where = Where("h-1", joiner=Joiner("receiver", lambda: Directory(engines, "h-1"), Counters()))
    buffer, ends = sent.together(client.sent)
    found = read(buffer, ends, np.array([1, 20, 30, 30], np.uint32))

    result = fold(buffer, found, where, elsewhere={20: "b", 30: None})

    assert {row["model"]: row["engine_id"] for row in rows(result)} == {
        "here": "a",
        "published": "b",
        "unknown": None,
        "named": "b",
    }
