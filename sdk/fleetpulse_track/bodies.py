"""Bodies of HTTP responses, read along while their caller reads them: event streams and JSON.

The caller gets the engine's bytes, chunk by chunk as they came; closing and dropping a response do what they did. What
is kept here is bounded: an event of an event stream up to ``EVENT_BYTES_MAX``, a whole body up to ``JSON_BYTES_MAX``.
What is longer is not read, nor is an encoding that this process cannot unpack: tokens are unknown then, times and the
end are reported. A stream of choices that ends with neither a reason nor ``[DONE]`` was cut: its engine was lost.
Nothing is raised into the caller.
"""

from __future__ import annotations

import contextlib
import json
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from fleetpulse_track.encodings import unpacker
from fleetpulse_track.requests import Request
from fleetpulse_track.streams import describe, identify, observe

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self  # from Python 3.11

EVENT_BYTES_MAX = 1024 * 1024
JSON_BYTES_MAX = 1024 * 1024
_LAST_EVENTS = ("response.completed", "response.incomplete", "response.failed")


class Events:
    """The data of each event of an event stream, from bytes that were cut anywhere. Lines end in LF, CR or both."""

    __slots__ = ("_data", "_long", "_rest")

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []
        self._long = False

    def of(self, data: bytes) -> Iterator[bytes]:
        """The events that end in these bytes; those of more than ``EVENT_BYTES_MAX`` are left out."""
        text = self._rest + data
        cut = max(text.rfind(b"\n"), text.rfind(b"\r", 0, -1)) + 1  # a CR at the end may be the half of a CR LF
        self._rest = text[cut:]
        for line in text[:cut].splitlines():
            if not line:
                if self._data:
                    yield b"\n".join(self._data)
                self._data, self._long = [], False
            elif not self._long and line.startswith(b"data:"):
                self._data.append(line[6:] if line.startswith(b"data: ") else line[5:])
        if len(self._rest) + sum(map(len, self._data)) > EVENT_BYTES_MAX:
            self._rest, self._data, self._long = b"", [], True  # up to the end of this event


class Reader:
    """One response's body: what it says of the request goes into it, and its end is the request's end."""

    __slots__ = ("_cut", "_events", "_named", "_readable", "_request", "_unpack", "_whole", "_whole_bytes")

    def __init__(self, request: Request, content_type: str, encoding: str) -> None:
        self._request = request
        self._events = Events() if content_type.startswith("text/event-stream") else None
        self._unpack = unpacker(encoding)
        self._readable = encoding in ("", "identity") or self._unpack is not None
        self._named = False
        self._cut = False  # choices began, and none of them said why it ended
        self._whole: list[bytes] = []
        self._whole_bytes = 0

    def feed(self, data: bytes) -> None:
        """The next bytes, as the caller got them."""
        if not self._readable or self._request.done:
            return
        try:
            self._read(data if self._unpack is None else self._unpack(data))
        except Exception:  # bytes are of any engine: what cannot be read is unknown
            self._readable = False

    def end(self, error: BaseException | None = None) -> None:
        """The body ended, was closed (``GeneratorExit``) or broke; the first end counts."""
        if not self._request.done:
            with contextlib.suppress(Exception):
                if error is None and self._readable and self._whole:
                    describe(self._request, json.loads(b"".join(self._whole)))
                if error is None and self._readable and self._cut:
                    self._request.set(status="error", error_kind="engine_lost")
            unknown = isinstance(error, GeneratorExit) and self._events is not None and not self._readable
            self._request.finish(None if unknown else error)  # its caller may well have read it to its last event
            self._whole = []

    def _read(self, data: bytes) -> None:
        if self._events is not None:
            for event in self._events.of(data):
                self._event(event)
            return
        self._whole_bytes += len(data)
        self._whole.append(data)
        if self._whole_bytes > JSON_BYTES_MAX:
            self._readable, self._whole = False, []

    def _event(self, event: bytes) -> None:
        if event.startswith(b"[DONE]"):
            self._request.finish()
            return
        try:
            chunk = json.loads(event)
        except ValueError:
            return  # a proxy's own words, say; what comes after it is read all the same
        observe(self._request, chunk)
        if not isinstance(chunk, dict):
            return
        self._look_for_the_end(chunk)
        if not self._named:
            self._named = True
            identify(self._request, chunk)
            self._request.claim()
        if chunk.get("type") in _LAST_EVENTS:
            self._request.finish()

    def _look_for_the_end(self, chunk: dict[str, Any]) -> None:
        choices = chunk.get("choices")
        if choices and isinstance(choices, list):
            self._cut = not any(isinstance(one, dict) and one.get("finish_reason") for one in choices)
        elif chunk.get("error"):
            self._cut = False


class _Body:
    """A response's byte stream, read along. What else it offers is passed through."""

    def __init__(self, stream: Any, reader: Reader) -> None:
        self._stream = stream
        self._reader = reader
        self._chunks: Any = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self._reader.end(GeneratorExit())


class _SyncBody(_Body):
    def __iter__(self) -> Self:
        if self._chunks is None:
            self._chunks = iter(self._stream)
        return self  # whoever reads on goes on: an iterator that ends early closes the connection

    def __next__(self) -> bytes:
        try:
            chunk: bytes = next(self._chunks)
        except StopIteration:
            self._reader.end()
            raise
        except BaseException as error:  # an interrupt ends the request too
            self._reader.end(error)
            raise
        self._reader.feed(chunk)
        return chunk

    def close(self) -> None:
        try:
            self._stream.close()
        finally:
            self._reader.end(GeneratorExit())


class _AsyncBody(_Body):
    def __aiter__(self) -> Self:
        if self._chunks is None:
            self._chunks = self._stream.__aiter__()
        return self  # whoever reads on goes on: an iterator that ends early closes the connection

    async def __anext__(self) -> bytes:
        try:
            chunk: bytes = await self._chunks.__anext__()
        except StopAsyncIteration:
            self._reader.end()
            raise
        except BaseException as error:  # a cancellation ends the request too
            self._reader.end(error)
            raise
        self._reader.feed(chunk)
        return chunk

    async def aclose(self) -> None:
        try:
            await self._stream.aclose()
        finally:
            self._reader.end(GeneratorExit())


@lru_cache(maxsize=64)
def _kind_below(stream_kind: Any) -> Any:
    """The class of bodies that stand in for such a stream, below the base that its HTTP library checks for."""
    bodies = {"SyncByteStream": _SyncBody, "AsyncByteStream": _AsyncBody}
    (base,) = [base for base in stream_kind.__mro__ if base.__name__ in bodies]
    body = bodies[base.__name__]
    return type(body.__name__, (body, base), {})


def read_along(response: Any, request: Request) -> None:
    """Report the request by the body of this response of ``httpx`` or ``httpx2``, be it read by now or not.

    Raises:
        Exception: any, for a response of another kind, which is left alone; the request has not ended then.
    """
    content_type, encoding = (response.headers.get(name, "") for name in ("content-type", "content-encoding"))
    if response.is_closed:
        content = response.content  # decoded
        reader = Reader(request, content_type, "")
        reader.feed(content)
        reader.end()
        return
    stream_kind: Any = type(response.stream)
    response.stream = _kind_below(stream_kind)(response.stream, Reader(request, content_type, encoding.strip().lower()))
