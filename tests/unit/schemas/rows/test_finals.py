"""Headers of window.finals: what is written is read again, what is not ours is refused by name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import ContractError
from schemas.limits import WINDOW_MS
from schemas.rows import finals
from schemas.rows.finals import AHEAD_MS, FinalsHeaders, PassedOnHeaders
from schemas.rows.tables import EXEMPLARS, PARTIALS

WHOLE = st.integers(0, 10**15)
TIMES = st.integers(0, 10**11).map(lambda number: number * WINDOW_MS)


def test_a_schema_of_finals_is_named_after_its_topic() -> None:
    """Every topic has one, and it leads back to the topic and to the fields of its partials."""
    assert finals.finals_schema("llm.requests") == "llm_requests_finals/1"
    assert [finals.TOPIC_BY_SCHEMA[finals.finals_schema(topic)] for topic in PARTIALS] == list(PARTIALS)
    assert finals.TABLE_BY_SCHEMA["gpu_samples_finals/1"] is PARTIALS["gpu.samples"]
    assert finals.TABLE_BY_SCHEMA["exemplars/1"] is EXEMPLARS


@given(
    st.builds(
        FinalsHeaders,
        st.sampled_from([*finals.TABLE_BY_SCHEMA, finals.PROGRESS_SCHEMA]),
        WHOLE,
        TIMES,
        WHOLE,
        st.booleans(),
        TIMES,
        WHOLE,
    )
    | st.builds(PassedOnHeaders, st.sampled_from([*finals.PASSED_ON_SCHEMAS, finals.COMMANDS_SCHEMA]), WHOLE, WHOLE)
)
def test_what_is_encoded_is_decoded(headers: FinalsHeaders | PassedOnHeaders) -> None:
    """Headers that a later version adds do no harm."""
    assert finals.decode((*headers.encode(), ("later", b"?")), "here") == headers


def test_the_headers_are_text() -> None:
    """So that any client can read them."""
    headers = FinalsHeaders("gpu_samples_finals/1", 3, 1_800_000_000_000, 12, True, 1_800_000_010_000, 5)

    assert headers.encode() == (
        ("schema", b"gpu_samples_finals/1"),
        ("content-type", b"application/vnd.clickhouse.native"),
        ("upstream", b"3"),
        ("window", b"1800000000000"),
        ("revision", b"12"),
        ("complete", b"1"),
        ("through", b"1800000010000"),
        ("rows", b"5"),
    )
    assert dict(PassedOnHeaders("alert.commands/1", 7, 1).encode())["content-type"] == b"application/json"


@pytest.mark.parametrize(
    ("headers", "told"),
    [
        ((), "schema ''"),
        ((("schema", b"gpu.samples/1"),), "which no release has"),
        ((("schema", b"gpu.events/1"),), "'at'"),
        ((("schema", b"gpu_samples_finals/1"), ("upstream", b"x")), "no number"),
    ],
    ids=["nothing", "a topic that is not passed on", "a header that is missing", "a header that is no number"],
)
def test_what_is_not_ours_is_refused(headers: tuple[tuple[str, bytes], ...], told: str) -> None:
    """With the place of the record."""
    with pytest.raises(ContractError, match=r"window\.finals\[0\] offset 4.*" + told):
        finals.decode(headers, "window.finals[0] offset 4")


AT_MS = 1_800_000_000_000


@pytest.mark.parametrize(
    ("window_ms", "through_ms", "told"),
    [
        (AT_MS + 1, 0, "window 1800000000001 is between windows"),
        (AT_MS, AT_MS + 9_999, "through 1800000009999 is between windows"),
        (-WINDOW_MS, 0, "window -10000 is between"),
        (AT_MS + AHEAD_MS + WINDOW_MS, 0, "window 1800000610000 is more than 600000 ms after"),
        (AT_MS, AT_MS + AHEAD_MS + WINDOW_MS, "through 1800000610000 is more than 600000 ms after"),
    ],
)
def test_times_that_cannot_be_are_refused(window_ms: int, through_ms: int, told: str) -> None:
    """One record with a wrong time would make everything after it late."""
    headers = FinalsHeaders("gpu_samples_finals/1", 0, window_ms, 1, True, through_ms, 1).encode()

    with pytest.raises(ContractError, match=f"here: {told}"):
        finals.decode(headers, "here", AT_MS)


def test_ten_minutes_ahead_are_believed() -> None:
    """Clocks differ; without an append time there is nothing to compare with."""
    last_ms = AT_MS + AHEAD_MS
    ahead = [FinalsHeaders("gpu_samples_finals/1", 0, at_ms, 1, True, at_ms, 1) for at_ms in (last_ms, 10 * last_ms)]

    assert finals.decode(ahead[0].encode(), "here", AT_MS) == ahead[0]
    assert finals.decode(ahead[1].encode(), "here") == ahead[1]
