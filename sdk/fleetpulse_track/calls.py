"""Functions each call of which is a request."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from fleetpulse_track.handover import Client
from fleetpulse_track.requests import Request, choices_in, user_in
from fleetpulse_track.streams import describe, watch

_Call = TypeVar("_Call", bound=Callable[..., Any])


def wrap(call: _Call, *, client: Client | None = None, **fields: Any) -> _Call:
    """The function, each call of which is a request: until its return, the end of its coroutine or task, or the end of
    the stream that it returns. A keyword ``model`` of the call names the model. A coroutine function stays one: whoever
    calls it may ask."""
    from inspect import iscoroutinefunction  # slow to import

    def begun(kwargs: dict[str, Any]) -> Request:
        known = dict(fields)
        if isinstance(model := kwargs.get("model"), str):
            known["model"] = model
        known.setdefault("user", user_in(kwargs))
        known.setdefault("choices", choices_in(known.get("api"), kwargs))
        return Request(client=client, **known)

    @functools.wraps(call)
    async def tracked_coroutine(*args: Any, **kwargs: Any) -> Any:
        request = begun(kwargs)
        try:
            answer = await call(*args, **kwargs)
        except BaseException as error:
            request.finish(error)
            raise
        return _ended(answer, request)

    @functools.wraps(call)
    def tracked_call(*args: Any, **kwargs: Any) -> Any:
        request = begun(kwargs)
        try:
            answer = call(*args, **kwargs)
        except BaseException as error:
            request.finish(error)
            raise
        return _returned(answer, request)

    return tracked_coroutine if iscoroutinefunction(call) else tracked_call  # type: ignore[return-value]


def _returned(answer: Any, request: Request) -> Any:
    """What a plain function returned. A coroutine is awaited within another; whatever else can be awaited is the
    caller's as it is: a task, which ends its request when it is done, or what is a context manager, too."""
    kind = type(answer)
    if isinstance(answer, Coroutine) and not hasattr(kind, "__aenter__"):
        return _awaited(answer, request)
    if hasattr(kind, "add_done_callback") and hasattr(kind, "result") and not _is_stream(answer):
        answer.add_done_callback(functools.partial(_done, request))
        return answer
    return _ended(answer, request)


def _done(request: Request, future: Any) -> None:
    try:
        answer = future.result()
    except BaseException as error:
        request.finish(error)
    else:
        describe(request, answer)
        request.finish()


async def _awaited(answer: Any, request: Request) -> Any:
    try:
        answer = await answer
    except BaseException as error:
        request.finish(error)
        raise
    return _ended(answer, request)


def _ended(answer: Any, request: Request) -> Any:
    if _is_stream(answer):
        return watch(answer, request)
    describe(request, answer)
    request.finish()
    return answer


def _is_stream(answer: Any) -> bool:
    """Generators and streams are their own iterators; answers (pydantic models can be iterated too) are not."""
    kind = type(answer)
    return hasattr(kind, "__next__") or hasattr(kind, "__anext__")


def tracked(model: str | None = None, *, client: Client | None = None, **fields: Any) -> Callable[[_Call], _Call]:
    """A decorator: ``wrap`` with a model and fields. For functions, coroutines, generators, asynchronous generators."""
    known = fields if model is None else {"model": model, **fields}
    return lambda call: wrap(call, client=client, **known)
