"""Numbers and fields of Protocol Buffers."""

from __future__ import annotations

import pytest

from runtime.protobuf_wire import field, varint


@pytest.mark.parametrize(
    ("value", "written"),
    [(0, "00"), (1, "01"), (127, "7f"), (128, "8001"), (150, "9601"), (16_384, "808001"), (2**63 - 1, "ff" * 8 + "7f")],
)
def test_numbers_take_seven_bits_a_byte(value: int, written: str) -> None:
    """As in the encoding guide, whose example is 150."""
    assert varint(value).hex() == written


def test_a_field_says_its_number_and_length() -> None:
    """The guide's example of a text: field 2, "testing"."""
    assert field(2, b"testing").hex() == "120774657374696e67"
    assert field(15, b"x" * 128) == b"\x7a\x80\x01" + b"x" * 128
