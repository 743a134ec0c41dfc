"""Reads chunks of a stream or a whole answer by shape: attributes or keys named as OpenAI's.

``openai`` is not imported. A chunk that is no OpenAI chunk (a text, say) counts as one chunk with content.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from fleetpulse_track.endings import by_code
from fleetpulse_track.requests import Request

if TYPE_CHECKING:
    from typing import Self  # from Python 3.11

_USAGE = (
    ("input_tokens", ("prompt_tokens", "input_tokens")),
    ("output_tokens", ("completion_tokens", "output_tokens")),
)
_DETAILS = (
    ("cached_tokens", ("prompt_tokens_details", "input_tokens_details"), "cached_tokens"),
    ("reasoning_tokens", ("completion_tokens_details", "output_tokens_details"), "reasoning_tokens"),
    ("speculative_tokens", ("completion_tokens_details",), "accepted_prediction_tokens"),
)
_WORDS_OF = {
    "stop": ("stop", "eos", "eos_token", "stop_sequence", "end_turn"),
    "length": ("length", "max_tokens", "max_output_tokens", "model_context_window_exceeded"),
    "tool_calls": ("tool_calls", "tool_call", "function_call", "tool_use"),
    "content_filter": ("content_filter", "refusal", "safety"),
    "abort": ("abort", "cancelled"),
    "error": ("error",),
}
_FINISH = {word: reason for reason, words in _WORDS_OF.items() for word in words}
"""As the proxy reads them: OpenAI's words, Anthropic's, and those of engines."""


def _get(thing: Any, name: str) -> Any:
    return thing.get(name) if isinstance(thing, dict) else getattr(thing, name, None)


def observe(request: Request, chunk: Any) -> None:
    """Take one chunk of a stream. Anything may be passed; nothing is raised."""
    try:
        choices = _get(chunk, "choices")
        if choices:
            for choice in choices:
                _choice(request, choice)
        elif choices is None:
            _event(request, chunk)
        usage = _get(chunk, "usage")
        if usage is not None:
            counts = _counts(usage)
            if choices and len(choices) == 1:  # else it counts the request
                request.used(_get(choices[0], "index") or 0, counts)
            elif counts:
                request.set(**counts, tokens_from="engine")
    except Exception:  # chunks are of any library: whatever theirs raise, the caller's stream goes on
        return


def _choice(request: Request, choice: Any) -> None:
    if isinstance(choice, dict):
        delta, reason, index = choice.get("delta"), choice.get("finish_reason"), choice.get("index")
    else:
        delta, reason, index = getattr(choice, "delta", None), choice.finish_reason, choice.index
    if delta is None:
        if _get(choice, "text"):
            request.token(choice=index or 0)
    elif _get(delta, "content") or _get(delta, "tool_calls") or _get(delta, "refusal") or _get(delta, "function_call"):
        request.token(choice=index or 0)
    elif _get(delta, "reasoning_content") or _get(delta, "reasoning"):
        request.token(reasoning=True, choice=index or 0)
    if reason is not None:
        request.over(index or 0, _FINISH.get(reason, "other"))


def _event(request: Request, event: Any) -> None:
    """An event of the responses API, or something else altogether."""
    kind = _get(event, "type")
    error = event.get("error") if isinstance(event, dict) else None
    if error or kind == "error":
        _error(request, error or event)
    elif not isinstance(kind, str) or not kind.startswith("response."):
        request.token()
    elif kind.endswith(".delta"):
        request.token(reasoning="reasoning" in kind)
    elif (answer := _get(event, "response")) is not None and kind != "response.created":
        describe(request, answer)
        if kind == "response.failed":
            _error(request, _get(answer, "error"))


def _error(request: Request, error: Any) -> None:
    """An error that an engine put into a stream or an answer which it had begun with 200. ``code``: a number, or words
    (``rate_limit_exceeded``)."""
    code = str(_get(error, "code"))
    if code.isdigit() and 400 <= int(code) <= 599:
        request.set(**by_code(int(code)))
    elif "timeout" in code:
        request.set(**by_code(504))
    elif "rate_limit" in code:  # what had begun was not rejected
        request.set(**by_code(429) | ({"status": "error"} if request.begun else {}))
    else:
        request.set(status="error", error_kind="server")


def describe(request: Request, answer: Any) -> None:
    """Take a whole answer: ids, usage, why it ended. Anything may be passed; nothing is raised."""
    with contextlib.suppress(Exception):
        identify(request, answer)
        choices = _get(answer, "choices")
        if choices:
            calls = [call for choice in choices for call in _get(_get(choice, "message"), "tool_calls") or ()]
            reason = _get(choices[0], "finish_reason")
            request.set(choices=len(choices), tool_calls=len(calls))
            if reason is not None:
                request.set(finish_reason=_FINISH.get(reason, "other"))
        elif reason := _get(_get(answer, "incomplete_details"), "reason"):  # of the responses API
            request.set(finish_reason=_FINISH.get(reason, "other"))
        if (usage := _get(answer, "usage")) is not None and (counts := _counts(usage)):
            request.set(**counts, tokens_from="engine")
        if _get(answer, "object") == "response":
            _outcome(request, answer)


def _outcome(request: Request, answer: Any) -> None:
    """How a response ended that the engine answered with 200 all the same."""
    status = _get(answer, "status")
    if status == "failed":
        _error(request, _get(answer, "error"))
    elif status == "cancelled":
        request.set(status="aborted")


def identify(request: Request, answer: Any) -> None:
    """Take the id that an answer or chunk names, and the model where none was asked for."""
    for name, key in (("request_id", "id"), ("model", "model")):
        value = _get(answer, key)
        if isinstance(value, str) and value and not (name == "model" and request.model):
            request.set(**{name: value})


def _counts(usage: Any) -> dict[str, int]:
    found: dict[str, Any] = {}
    for name, places in _USAGE:
        found[name] = next((value for place in places if (value := _get(usage, place)) is not None), None)
    for name, inside, field in _DETAILS:
        details = next((value for place in inside if (value := _get(usage, place)) is not None), None)
        found[name] = None if details is None else _get(details, field)
    return {name: value for name, value in found.items() if type(value) is int and value >= 0}


class _Watched:
    """What both kinds of stream share. Whatever else the stream offers is passed through.

    ``_stream`` is what the caller opened, which closes the connection; ``_chunks`` iterates over it. They differ where
    the stream is no iterator itself: closing an iterator over a stream leaves the stream open.
    """

    def __init__(self, stream: Any, chunks: Any, request: Request) -> None:
        self._stream = stream
        self._chunks = chunks
        self._request = request
        self._named = False
        self._lent = False  # something of the stream, which its caller may go on reading

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._stream, name)
        self._lent = True
        return found

    def _closers(self, *names: str) -> list[Callable[[], Any]]:
        """What closes the iterator, then the stream: the first of these methods that each of them has."""
        ends = [self._stream] if self._chunks is self._stream else [self._chunks, self._stream]
        found = (next((getattr(end, name) for name in names if hasattr(end, name)), None) for end in ends)
        return [close for close in found if close is not None]

    def _see(self, chunk: Any) -> None:
        try:  # nearly every chunk is this: a piece of text in the one choice
            (choice,) = chunk.choices
            if (
                choice.delta.content
                and chunk.usage is choice.finish_reason is None
                and choice.index == 0
                and self._named
            ):
                self._request.token()
                return
        except Exception:  # of another shape, by whatever error: `observe` looks more closely
            pass
        observe(self._request, chunk)
        if not self._named:
            self._named = True
            with contextlib.suppress(Exception):
                identify(self._request, chunk)
                self._request.claim()


class WatchedStream(_Watched):
    """An iterator over the stream. Closed or dropped before its end, it closes the stream: the request is aborted. What
    somebody took an attribute of (``watch(...).text_stream``) it does not close when it is dropped."""

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            if self._lent:
                self._request.finish(GeneratorExit())
            elif not self._request.done:
                self.close()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        try:
            chunk = next(self._chunks)
        except StopIteration:
            self._request.finish()
            raise
        except BaseException as error:  # an interrupt or a cancellation ends the request too
            self._request.finish(error)
            raise
        self._see(chunk)
        return chunk

    def close(self) -> None:
        self._request.finish(GeneratorExit())
        for close in self._closers("close"):
            close()

    def __enter__(self) -> Self:
        if hasattr(self._stream, "__enter__"):
            self._stream.__enter__()
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> Any:
        self._request.finish(error or GeneratorExit())
        return self._stream.__exit__(kind, error, trace) if hasattr(self._stream, "__exit__") else self.close()


class WatchedAsyncStream(_Watched):
    """The same for a stream that is awaited. Dropped, it leaves the closing to the stream's own finaliser, which the
    event loop runs: nothing can be awaited here."""

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self._request.finish(GeneratorExit())

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        try:
            chunk = await self._chunks.__anext__()
        except StopAsyncIteration:
            self._request.finish()
            raise
        except BaseException as error:  # an interrupt or a cancellation ends the request too
            self._request.finish(error)
            raise
        self._see(chunk)
        return chunk

    async def close(self) -> None:
        self._request.finish(GeneratorExit())
        for close in self._closers("aclose", "close"):
            if hasattr(closing := close(), "__await__"):
                await closing

    aclose = close

    async def __aenter__(self) -> Self:
        if hasattr(self._stream, "__aenter__"):
            await self._stream.__aenter__()
        return self

    async def __aexit__(self, kind: Any, error: BaseException | None, trace: Any) -> Any:
        self._request.finish(error or GeneratorExit())
        if hasattr(self._stream, "__aexit__"):
            return await self._stream.__aexit__(kind, error, trace)
        return await self.close()


def watch(stream: Any, request: Request) -> Any:
    """The stream, watched until its end; anything that is no stream is returned as it is, the request finished."""
    kind = type(stream)
    if hasattr(kind, "__aiter__"):
        return WatchedAsyncStream(stream, stream if hasattr(kind, "__anext__") else stream.__aiter__(), request)
    if hasattr(kind, "__iter__") and not isinstance(stream, (str, bytes, Mapping, list, tuple)):
        return WatchedStream(stream, stream if hasattr(kind, "__next__") else iter(stream), request)
    describe(request, stream)
    request.finish()
    return stream
