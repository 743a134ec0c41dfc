"""Placement: golden values, because a hash that changes tears series apart."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.contract.placement import first_known, join_key, place

GOLDEN = [(b"", 0), (b"gpu-017/vllm-0", 1), (b"host-1", 3), (b"\x00\x1fa", 2), ("ü".encode(), 1)]


@pytest.mark.parametrize(("key", "partition"), GOLDEN)
def test_a_key_has_its_partition_for_ever(key: bytes, partition: int) -> None:
    """CRC-32 modulo 4, as written down on the first day."""
    assert place(key, 4) == partition


def test_the_hash_is_the_standard_one() -> None:
    """The check value of CRC-32/ISO-HDLC in the catalogue of parametrised CRC algorithms."""
    assert place(b"123456789", 2**32) == 0xCBF43926


@given(st.binary(), st.integers(1, 1_000))
def test_the_partition_lies_inside_the_topic(key: bytes, partitions: int) -> None:
    """[0, partitions)."""
    assert 0 <= place(key, partitions) < partitions


def test_null_is_not_the_empty_word() -> None:
    """Keys of several words tell null from empty, and which word is which."""
    keys = [join_key(words) for words in ([None, b""], [b"", None], [b"", b""], [b"a", b"b"], [b"b", b"a"])]

    assert len(set(keys)) == len(keys)


def test_the_first_known_word_places() -> None:
    """placement_group where there is one, else the host, else nothing."""
    assert [first_known(words) for words in ([None, b"h"], [b"p", b"h"], [None, None], [b"", b"h"])] == [
        b"h",
        b"p",
        b"",
        b"",
    ]
