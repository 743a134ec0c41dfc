"""The alert job's state as parts: small, and readable from one release to the next."""

from __future__ import annotations

import orjson
from hypothesis import given
from hypothesis import strategies as st

from stream_jobs.alerts.step import in_parts, of_parts

SECTIONS = st.dictionaries(st.sampled_from(["judge", "evidence"]), st.lists(st.binary(max_size=30), max_size=4))


@given(st.dictionaries(st.text(max_size=5), st.integers(0, 9), max_size=5), SECTIONS)
def test_any_state_comes_back(head: dict[str, int], sections: dict[str, list[bytes]]) -> None:
    """Empty pieces and none at all too."""
    assert of_parts(in_parts(head, sections)) == (head, sections)


def test_a_large_head_is_small() -> None:
    """It is words that repeat, and stands in every transaction that tells an alert."""
    head = {f"h-{n}/e-0": ["gpu", "engine", "host"] for n in range(20_000)}

    assert len(b"".join(in_parts(head, {}))) < len(orjson.dumps(head)) / 5
