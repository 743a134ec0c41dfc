"""Prepared C calls: what pynvml builds at each call is built once, and the calls are made back to back.

In most calls the driver waits, and a thread that wakes finds its caches cold. So all calls are made first, and their
results are read together.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pynvml

CCall = tuple[Callable[..., int], tuple[Any, ...]]
"""A C function and its arguments, the buffers that it fills among them."""

_ALIGNED = 8


@dataclass(frozen=True, slots=True, eq=False)
class Raw:
    """The C function behind a call, and the layout of its result. ``made`` makes the buffer it fills; ``before`` stands
    between handle and buffer, ``after`` behind it. ``layout``: of the buffer (nvml.h), as ``struct`` reads it, a number
    for every key.
    """

    function: str
    made: Callable[[], Any]
    layout: struct.Struct
    before: tuple[Any, ...] = ()
    after: tuple[Any, ...] = ()


def function_of(name: str) -> Callable[..., int]:
    """The C function; ``NVMLError`` where the driver lacks it."""
    function: Callable[..., int] = pynvml._nvmlGetFunctionPointer(name)
    return function


def codes_of(calls: Iterable[CCall]) -> list[int]:
    """The codes that the driver gives to these, in turn."""
    return [function(*arguments) for function, arguments in calls]


@lru_cache(maxsize=64)
def _layout(raws: tuple[tuple[Raw, tuple[str, ...]], ...]) -> tuple[tuple[str, ...], tuple[int, ...], struct.Struct]:
    """Keys, the bytes each buffer takes, and what all of them are read with: the same memory for all devices."""
    sizes = tuple(-(-raw.layout.size // _ALIGNED) * _ALIGNED for raw, _ in raws)
    padded = [f"{raw.layout.format[1:]}{size - raw.layout.size}x" for (raw, _), size in zip(raws, sizes, strict=True)]
    return tuple(key for _, keys in raws for key in keys), sizes, struct.Struct("=" + "".join(padded))


class Together:
    """Calls of one device that are made together. Their buffers lie in one piece. For one thread at a time."""

    def __init__(self, raws: Sequence[tuple[Raw, tuple[str, ...]]], handle: Any) -> None:
        """Each with the keys of its numbers. ``NVMLError`` where the driver lacks a function."""
        self._keys, sizes, self._layout = _layout(tuple(raws))
        self._memory = (ctypes.c_char * max(1, sum(sizes)))()
        calls, at = list[CCall](), 0
        for (raw, _), size in zip(raws, sizes, strict=True):
            first = raw.made()
            buffer = type(first).from_buffer(self._memory, at)
            ctypes.pointer(buffer)[0] = first
            calls.append((function_of(raw.function), (handle, *raw.before, ctypes.byref(buffer), *raw.after)))
            at += size
        self.c_calls: tuple[CCall, ...] = tuple(calls)

    def decode(self) -> dict[str, int]:
        """The values in the buffers, by key; of a call that failed, an old one."""
        return dict(zip(self._keys, self._layout.unpack_from(self._memory), strict=True))
