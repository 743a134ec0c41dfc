"""Compiled loops that read JSON, as strictly as RFC 8259 has it. The compiler checks no bounds: the line feed does.

Every line lies in a buffer where a line feed follows it, with 8 spare bytes behind the last one. A line feed can stand
in no token, so every loop here ends at it, and it is never stepped over. A position of -1 says: not read. That is no
judgement: numbers beyond 64 bits, fractions in great detail, NaN and deep nesting are left to the careful reader.
"""

# mypy: disable-error-code="assignment,return-value"
# (numba casts numpy scalars to the integers of the signatures)
from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from schemas.codec.native_loads import load32, load64

LINE_FEED, QUOTE, COMMA, COLON, BACKSLASH = b'\n",:\\'
OPEN, CLOSE, OPEN_LIST, CLOSE_LIST = b"{}[]"
MINUS, PLUS, POINT, ZERO, NINE = b"-+.09"
NULL, TRUE, ALSE = (int.from_bytes(word, "little") for word in (b"null", b"true", b"alse"))
DEPTH_MAX = 60
"""Objects and arrays within one another; they are remembered in the bits of one number."""
_DIGITS_MAX = 20
_TEN_TO_19 = np.uint64(10**19)
_EVERY = np.uint64(0x0101010101010101)
_TOP = np.uint64(0x8080808080808080)
_SPACES = np.uint64(0x2020202020202020)
_QUOTES = _EVERY * np.uint64(QUOTE)
_BACKSLASHES = _EVERY * np.uint64(BACKSLASH)


@njit(cache=True, nogil=True)
def blank(data: Any, position: int) -> int:
    """The position behind spaces, tabs and carriage returns."""
    while data[position] <= 0x20 and (data[position] == 0x20 or data[position] == 0x09 or data[position] == 0x0D):
        position += 1
    return position


@njit(cache=True, nogil=True)
def whole(data: Any, position: int) -> tuple[int, bool, int]:
    """A whole number of at most 64 bits: its magnitude (UInt64), whether it has a minus, the position behind it."""
    negative = data[position] == MINUS
    if negative:
        position += 1
    begin, value = position, np.uint64(0)
    while ZERO <= data[position] <= NINE and position - begin <= _DIGITS_MAX:
        value = value * np.uint64(10) + np.uint64(data[position] - ZERO)
        position += 1
    digits = position - begin
    if digits == 0 or digits > _DIGITS_MAX or (digits > 1 and data[begin] == ZERO):
        return np.uint64(0), negative, -1
    if digits == _DIGITS_MAX and (data[begin] != ZERO + 1 or value < _TEN_TO_19):
        return np.uint64(0), negative, -1
    return value, negative, position


@njit(cache=True, nogil=True)
def text(data: Any, begin: int) -> tuple[int, int]:
    """A text whose first byte, behind the quote, is at ``begin``: its size and the position behind its last quote.

    Escapes are replaced by what they mean, in the buffer: the text is the ``size`` bytes at ``begin``, valid UTF-8.
    """
    position = begin
    while True:
        word = load64(data, position)
        quotes, backslashes = word ^ _QUOTES, word ^ _BACKSLASHES
        special = ((quotes - _EVERY) & ~quotes) | ((backslashes - _EVERY) & ~backslashes)
        if (special | ((word - _SPACES) & ~word) | word) & _TOP:
            break
        position += 8
    while data[position] >= 0x20 and data[position] < 0x80 and data[position] != QUOTE and data[position] != BACKSLASH:
        position += 1
    if data[position] == QUOTE:
        return position - begin, position + 1
    return _careful_text(data, begin, position)


@njit(cache=True, nogil=True)
def _careful_text(data: Any, begin: int, position: int) -> tuple[int, int]:
    """The rest of a text in which an escape, a byte beyond ASCII or one that may not stand there was met."""
    end = position
    while data[position] != QUOTE:
        if data[position] < 0x20:
            return 0, -1
        if data[position] == BACKSLASH:
            end, position = _escape(data, end, position + 1)
            if position < 0:
                return 0, -1
        else:
            data[end] = data[position]
            end, position = end + 1, position + 1
    return (end - begin, position + 1) if _is_utf8(data, begin, end) else (0, -1)


@njit(cache=True, nogil=True)
def _escape(data: Any, end: int, position: int) -> tuple[int, int]:
    """Write at ``end`` what the escape means whose letter is at ``position``; the positions behind both."""
    letter = data[position]
    if letter == 0x75:  # u
        return _code_point(data, end, position + 1)
    if letter in (QUOTE, BACKSLASH) or letter == 0x2F:
        data[end] = letter
    elif letter == 0x62:
        data[end] = 0x08
    elif letter == 0x66:
        data[end] = 0x0C
    elif letter == 0x6E:
        data[end] = 0x0A
    elif letter == 0x72:
        data[end] = 0x0D
    elif letter == 0x74:
        data[end] = 0x09
    else:
        return 0, -1
    return end + 1, position + 1


@njit(cache=True, nogil=True)
def _code_point(data: Any, end: int, position: int) -> tuple[int, int]:
    """Write the UTF-8 of four hexadecimal digits, or of a pair of surrogates."""
    point = _hexadecimal(data, position)
    position += 4
    if 0xD800 <= point < 0xDC00 and data[position] == BACKSLASH and data[position + 1] == 0x75:
        low = _hexadecimal(data, position + 2)
        if low < 0xDC00 or low >= 0xE000:
            return 0, -1
        point = 0x10000 + ((point - 0xD800) << 10) + low - 0xDC00
        position += 6
    if point < 0 or 0xD800 <= point < 0xE000:
        return 0, -1
    if point < 0x80:
        data[end] = point
        return end + 1, position
    bits = 6 if point < 0x800 else 12 if point < 0x10000 else 18
    data[end] = (0xC0 if bits == 6 else 0xE0 if bits == 12 else 0xF0) | (point >> bits)
    while bits > 0:
        bits -= 6
        end += 1
        data[end] = 0x80 | ((point >> bits) & 0x3F)
    return end + 1, position


@njit(cache=True, nogil=True)
def _hexadecimal(data: Any, position: int) -> int:
    """Four digits; -1 where one is none. Reads none behind the first that is none."""
    value = 0
    for i in range(4):
        digit = np.int64(data[position + i])
        if ZERO <= digit <= NINE:
            value = value * 16 + digit - ZERO
        elif 0x61 <= (digit | 0x20) <= 0x66:
            value = value * 16 + (digit | 0x20) - 0x61 + 10
        else:
            return -1
    return value


@njit(cache=True, nogil=True)
def _is_utf8(data: Any, position: int, end: int) -> bool:
    """Whether the bytes are UTF-8: shortest forms, no surrogates, nothing above U+10FFFF."""
    while position < end:
        lead = np.int64(data[position])
        more = 0 if lead < 0x80 else 1 if 0xC2 <= lead < 0xE0 else 2 if 0xE0 <= lead < 0xF0 else 3
        if lead >= 0xF5 or (more == 3 and lead < 0xF0) or position + more >= end:
            return False
        for i in range(1, more + 1):
            if data[position + i] & 0xC0 != 0x80:
                return False
        if more > 1:
            second = np.int64(data[position + 1])
            if (lead == 0xE0 and second < 0xA0) or (lead == 0xED and second >= 0xA0):
                return False
            if (lead == 0xF0 and second < 0x90) or (lead == 0xF4 and second >= 0x90):
                return False
        position += more + 1
    return True


@njit(cache=True, nogil=True)
def skip(data: Any, position: int) -> int:
    """The position behind any value, every byte of which was read."""
    depth, objects = 0, np.uint64(0)
    while True:
        opened = data[position]
        if opened in (OPEN, OPEN_LIST):
            depth += 1
            if depth > DEPTH_MAX:
                return -1
            objects = (objects << np.uint64(1)) | np.uint64(opened == OPEN)
            position = blank(data, position + 1)
            is_empty = data[position] == (CLOSE if opened == OPEN else CLOSE_LIST)
            if not is_empty:
                position = _skip_name(data, position) if opened == OPEN else position
                if position < 0:
                    return -1
                continue
        else:
            position = _skip_plain(data, position)
            if position < 0:
                return -1
        while True:
            if depth == 0:
                return position
            position = blank(data, position)
            is_object = (objects & np.uint64(1)) != 0
            if data[position] == COMMA:
                position = blank(data, position + 1)
                position = _skip_name(data, position) if is_object else position
                if position < 0:
                    return -1
                break
            if data[position] != (CLOSE if is_object else CLOSE_LIST):
                return -1
            depth, objects, position = depth - 1, objects >> np.uint64(1), position + 1


@njit(cache=True, nogil=True)
def _skip_name(data: Any, position: int) -> int:
    """The position of the value behind a name and its colon."""
    if data[position] != QUOTE:
        return -1
    _, position = text(data, position + 1)
    if position < 0:
        return -1
    position = blank(data, position)
    return blank(data, position + 1) if data[position] == COLON else -1


@njit(cache=True, nogil=True)
def _skip_plain(data: Any, position: int) -> int:
    """The position behind a text, a number or a word."""
    first = data[position]
    if first == QUOTE:
        _, position = text(data, position + 1)
        return position
    if first == MINUS or ZERO <= first <= NINE:
        return _skip_number(data, position)
    word = np.int64(load32(data, position))
    if word in (NULL, TRUE):
        return position + 4
    return position + 5 if first == 0x66 and np.int64(load32(data, position + 1)) == ALSE else -1


@njit(cache=True, nogil=True)
def _skip_number(data: Any, position: int) -> int:
    """The position behind a number; its exponent has at most two digits, so that it is a finite one."""
    _, _, position = whole(data, position)
    if position >= 0 and data[position] == POINT:
        position = _skip_digits(data, position + 1, _DIGITS_MAX)
    if position >= 0 and (data[position] == 0x65 or data[position] == 0x45):  # e, E
        signed = data[position + 1] == PLUS or data[position + 1] == MINUS
        position = _skip_digits(data, position + (2 if signed else 1), 2)
    return position


@njit(cache=True, nogil=True)
def _skip_digits(data: Any, position: int, digits_max: int) -> int:
    begin = position
    while ZERO <= data[position] <= NINE:
        position += 1
    return position if 0 < position - begin <= digits_max else -1
