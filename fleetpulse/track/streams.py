"""What passes through a stream or comes back whole, looked at by its shape: attributes or keys named as OpenAI's.

``openai`` is not imported. A chunk that is no OpenAI chunk (a text, say) counts as one chunk with content.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any, Self

from fleetpulse.track.requests import Request

_USAGE = (
    ("input_tokens", ("prompt_tokens", "input_tokens")),
    ("output_tokens", ("completion_tokens", "output_tokens")),
)
_DETAILS = (
    ("cached_tokens", ("prompt_tokens_details", "input_tokens_details"), "cached_tokens"),
    ("reasoning_tokens", ("completion_tokens_details", "output_tokens_details"), "reasoning_tokens"),
    ("speculative_tokens", ("completion_tokens_details",), "accepted_prediction_tokens"),
)
_FINISH = {"function_call": "tool_calls", "tool_use": "tool_calls", "eos": "stop", "max_tokens": "length"}
_FINISH |= {word: word for word in ("stop", "length", "tool_calls", "content_filter", "abort", "error")}


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
            _usage(request, usage)
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
        request.set(finish_reason=_FINISH.get(reason, "other"))


def _event(request: Request, event: Any) -> None:
    """An event of the responses API, or something else altogether."""
    kind = _get(event, "type")
    if not isinstance(kind, str) or not kind.startswith("response."):
        request.token()
    elif kind.endswith(".delta"):
        request.token(reasoning="reasoning" in kind)
    elif (answer := _get(event, "response")) is not None and kind != "response.created":
        describe(request, answer)
        if kind == "response.failed":
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
        if (usage := _get(answer, "usage")) is not None:
            _usage(request, usage)


def identify(request: Request, answer: Any) -> None:
    """Take the id and the model that an answer or chunk names."""
    for name, told in (("request_id", "id"), ("model", "model")):
        value = _get(answer, told)
        if isinstance(value, str) and value:
            request.set(**{name: value})


def _usage(request: Request, usage: Any) -> None:
    told: dict[str, Any] = {}
    for name, places in _USAGE:
        told[name] = next((value for place in places if (value := _get(usage, place)) is not None), None)
    for name, inside, field in _DETAILS:
        details = next((value for place in inside if (value := _get(usage, place)) is not None), None)
        told[name] = None if details is None else _get(details, field)
    known = {name: value for name, value in told.items() if type(value) is int and value >= 0}
    if known:
        request.set(**known, tokens_from="engine")


class _Watched:
    """What both kinds of stream share. Whatever else the stream offers is passed through."""

    def __init__(self, stream: Any, request: Request) -> None:
        self._stream = stream
        self._request = request
        self._named = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # dropped before its end
            self._request.finish(GeneratorExit())

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


class WatchedStream(_Watched):
    """An iterator over the stream; closed before its end, the request counts as aborted."""

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        try:
            chunk = next(self._stream)
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
        if (close := getattr(self._stream, "close", None)) is not None:
            close()

    def __enter__(self) -> Self:
        if hasattr(self._stream, "__enter__"):
            self._stream.__enter__()
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> Any:
        self._request.finish(error or GeneratorExit())
        return self._stream.__exit__(kind, error, trace) if hasattr(self._stream, "__exit__") else self.close()


class WatchedAsyncStream(_Watched):
    """The same for a stream that is awaited."""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        try:
            chunk = await self._stream.__anext__()
        except StopAsyncIteration:
            self._request.finish()
            raise
        except BaseException as error:  # an interrupt or a cancellation ends the request too
            self._request.finish(error)
            raise
        self._see(chunk)
        return chunk

    async def close(self) -> None:
        await self._closed("close")

    async def aclose(self) -> None:
        await self._closed("aclose")

    async def _closed(self, name: str) -> None:
        self._request.finish(GeneratorExit())
        close: Callable[[], Any] | None = getattr(self._stream, name, None)
        if close is not None:
            await close()

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
        return WatchedAsyncStream(stream.__aiter__(), request)
    if hasattr(kind, "__iter__") and not isinstance(stream, str | bytes | Mapping | list | tuple):
        return WatchedStream(iter(stream), request)
    describe(request, stream)
    request.finish()
    return stream
