"""The two writings of Protocol Buffers that small messages need, for which nobody has to install its library.

Source: https://protobuf.dev/programming-guides/encoding/
"""

from __future__ import annotations


def varint(value: int) -> bytes:
    """A whole number of 0 or more: seven bits a byte, the lowest first, the highest bit set in all but the last."""
    assert value >= 0, "a negative number has another writing"
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*out, value))


def field(number: int, body: bytes) -> bytes:
    """A field of text, bytes or a message, by its number of 1 to 15."""
    assert 1 <= number <= 15, "one byte holds the number and the type"
    return bytes([number << 3 | 2]) + varint(len(body)) + body
