"""A client of the ``openai`` package whose generating calls are requests.

``openai(client)`` returns a copy of the client, of a class below its own that differs in one method: ``request``,
through which ``create``, ``parse``, ``stream``, raw and streaming responses go. So all that a call returns is what
``openai`` made, and copies (``copy``, ``with_options``) are tracked too. The copy shares the HTTP client with the
original, as copies of ``openai`` do: connections, proxies, timeouts. The original stays as it was.

- A call is one request, however often ``openai`` repeats it (``max_retries``): it begins with the first attempt and
  ends as the last one did. The engine's own count has every attempt.
- A whole answer is read from what the call returns, a stream and a raw or streaming response from its bytes.
- ``openai`` is not imported. Seen with 2.54 (``httpx``) and 3.54 (``httpx2``).
"""

from __future__ import annotations

import contextlib
import copy
import logging
from functools import cached_property, lru_cache
from typing import Any, TypeVar

from fleetpulse_track.bodies import read_along
from fleetpulse_track.calls import wrap
from fleetpulse_track.handover import Client
from fleetpulse_track.requests import Request, choices_in, user_in
from fleetpulse_track.streams import describe

_log = logging.getLogger(__name__)

_Made = TypeVar("_Made")

APIS = {
    "/chat/completions": "chat",
    "/completions": "completions",
    "/responses": "responses",
    "/embeddings": "embeddings",
}
"""What ``api`` is called by the end of the path that is posted to; the first that fits. Other paths are no requests."""
_OF_PARSE = {
    "LengthFinishReasonError": "length",
    "ContentFilterFinishReasonError": "content_filter",
    "ValidationError": None,
}
"""Why generation ended, by what ``parse`` raises; the last is pydantic's. None: unknown."""
_PORTS = {"http": 80, "https": 443}
_ORIGINAL = "_fleetpulse_original"
"""Attribute of a wrapped ``create``: what it wraps."""
_SETTINGS = "_fleetpulse_settings"
"""Attribute of a tracked client: the ``Client`` and the fields of its requests."""


def openai(client_object: _Made, *, client: Client | None = None, **fields: Any) -> _Made:
    """A tracked copy of an ``openai`` client (``OpenAI``, ``AsyncOpenAI``, those of Azure and classes below them).

    Another object with the same resources is returned as it is, its ``create`` methods wrapped.
    """
    if not _is_of_openai(client_object):
        return client_object
    try:
        made: _Made = _copied(client_object)
        become_tracked(made, client, fields)
    except Exception:  # no client of ``openai``, or one that cannot be copied
        if not _wrap_creates(client_object, client, fields):
            _untracked(client_object)
        return client_object
    return made


def _is_of_openai(client_object: object) -> bool:
    """Not ``anthropic``'s, which is made with the same tools for an API that is not read here."""
    if not hasattr(type(client_object), "messages") or hasattr(type(client_object), "chat"):
        return True
    _untracked(client_object)
    return False


def _untracked(client_object: object) -> None:
    _log.warning("nothing of this client can be tracked: %s", type(client_object).__qualname__)


def become_tracked(made: Any, client: Client | None, fields: dict[str, Any]) -> None:
    """Make this very client a tracked one."""
    kind: Any = type(made)
    made.__class__ = _tracked_kind(kind)
    setattr(made, _SETTINGS, (client, fields))


def _copied(original: Any) -> Any:
    """Shallow, without the resources that are bound to the original: ``openai`` makes them anew when they are used.
    Its own ``copy`` reads the environment again and forgets some arguments; it serves older versions only, in which
    resources are plain attributes."""
    kind = type(original)
    if not isinstance(getattr(kind, "chat", None), cached_property):
        return original.copy()
    made = copy.copy(original)
    for name in list(made.__dict__):
        if isinstance(getattr(kind, name, None), cached_property):
            del made.__dict__[name]
    return made


@lru_cache(maxsize=64)
def _tracked_kind(kind: Any) -> Any:
    if hasattr(kind, _SETTINGS):
        return kind
    from inspect import iscoroutinefunction  # slow to import; ``openai`` has done it

    def copied(self: Any, *args: Any, **kwargs: Any) -> Any:
        made = kind.copy(self, *args, **kwargs)
        setattr(made, _SETTINGS, getattr(self, _SETTINGS))
        return made

    names = {"__module__": kind.__module__, "__qualname__": kind.__qualname__, "__doc__": kind.__doc__}
    request = _async_request if iscoroutinefunction(kind.request) else _sync_request
    methods = {"request": request(kind), "copy": copied, "with_options": copied, _SETTINGS: (None, {})}
    return type(kind.__name__, (kind,), {**names, **methods})  # the name is sent in the header User-Agent


def _sync_request(kind: type[Any]) -> Any:
    def request(self: Any, *args: Any, **kwargs: Any) -> Any:
        tracked = _begun(self, args, kwargs)
        try:
            answer = kind.request(self, *args, **kwargs)
        except BaseException as error:
            _failed(tracked, error)
            raise
        _answered(tracked, answer)
        return answer

    return request


def _async_request(kind: type[Any]) -> Any:
    async def request(self: Any, *args: Any, **kwargs: Any) -> Any:
        tracked = _begun(self, args, kwargs)
        try:
            answer = await kind.request(self, *args, **kwargs)
        except BaseException as error:
            _failed(tracked, error)
            raise
        _answered(tracked, answer)
        return answer

    return request


def _begun(made: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Request | None:
    """The request that this call is, begun now; None for a call that generates nothing."""
    with contextlib.suppress(Exception):
        options = kwargs["options"] if "options" in kwargs else args[1]
        api = next((api for path, api in APIS.items() if options.url.endswith(path)), None)
        if api is None or options.method.lower() != "post":
            return None
        body = options.json_data if isinstance(options.json_data, dict) else {}
        if body.get("background") and not body.get("stream"):
            return None  # answered before anything is generated
        client, fields = getattr(made, _SETTINGS)
        known = {"api": api, "address": _address(made.base_url), **fields}
        known.setdefault("user", user_in(body))
        known.setdefault("choices", choices_in(api, body))
        if isinstance(model := body.get("model"), str):
            known["model"] = model
        return Request(client=client, **known)
    return None


def _address(url: Any) -> str:
    host = f"[{url.host}]" if ":" in url.host else url.host
    return f"{host}:{url.port or _PORTS[url.scheme]}"


def _failed(request: Request | None, error: BaseException) -> None:
    """The call raised. ``parse`` does so too for an answer that was cut, filtered or of another form than the caller
    wished for: that one the engine gave well."""
    if request is None:
        return
    known = [kind.__name__ for kind in type(error).__mro__ if kind.__name__ in _OF_PARSE]
    if known:
        request.set(finish_reason=_OF_PARSE[known[0]])
        describe(request, getattr(error, "completion", None))
        request.finish()
    request.finish(error)


def _answered(request: Request | None, answer: Any) -> None:
    """The request has ended with its answer, or will with its body."""
    if request is None:
        return
    try:
        response = getattr(answer, "http_response", None)  # of a raw or a streaming response
        if response is None and (hasattr(type(answer), "__next__") or hasattr(type(answer), "__anext__")):
            response = answer.response
        if response is not None:
            read_along(response, request)
            return
        describe(request, answer)
    except Exception:  # an answer of another shape: the call went well, the rest is unknown
        pass
    request.finish()


def _wrap_creates(client_object: Any, client: Client | None, fields: dict[str, Any]) -> bool:
    """Whether any could be; those that are wrapped already are wrapped anew."""
    wrapped = False
    for path, api in APIS.items():
        resource: Any = client_object
        for name in path.strip("/").split("/"):
            resource = getattr(resource, name, None)
        create = getattr(resource, "create", None)
        if callable(create):
            tracked: Any = wrap(getattr(create, _ORIGINAL, create), client=client, **{"api": api, **fields})
            setattr(tracked, _ORIGINAL, tracked.__wrapped__)
            with contextlib.suppress(Exception):  # resources of any library: one that does not let us stays as it is
                resource.create = tracked
                wrapped = True
    return wrapped
