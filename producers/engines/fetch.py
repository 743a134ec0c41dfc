"""One HTTP GET with a time limit and a size limit, and a closed set of reasons why it gave nothing.

No redirect is followed, no proxy is used and no body is unpacked: the address is the engine's own.
"""

from __future__ import annotations

import http.client
import io
import socket
import ssl
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, Protocol
from urllib.parse import urlsplit

from schemas.errors import FleetpulseError

Reason = Literal["address", "refused", "timeout", "status", "too_large", "broken"]
CHUNK_BYTES = 64 * 1024


class FetchError(FleetpulseError):
    """Nothing came back. ``reason`` says why in a word, ``status`` is the HTTP status where there was one."""

    retriable = True

    def __init__(self, reason: Reason, url: str, detail: str, status: int | None = None) -> None:
        super().__init__(f"GET {url}: {detail}")
        self.reason = reason
        self.status = status


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """``time_ms`` for the whole exchange, ``bytes_max`` of body."""

    time_ms: int
    bytes_max: int


class Fetch(Protocol):
    """GET ``url`` within ``limits``; ``api_key`` goes out as a bearer token. Raises ``FetchError``."""

    def __call__(self, url: str, limits: FetchLimits, api_key: str | None = None) -> bytes: ...


def fetch(url: str, limits: FetchLimits, api_key: str | None = None, *, ca_file: Path | None = None) -> bytes:
    """The body of a 200 answer. Raises ``FetchError``, and nothing else, whatever the other side does.

    ``ca_file``: the authorities that may vouch for the server. None: those of the system.
    """
    until_s = time.monotonic() + limits.time_ms / 1_000
    try:
        connection = _connection(url, limits.time_ms / 1_000, ca_file)
    except (ValueError, OSError) as error:
        raise FetchError("address", url, str(error)) from error
    try:
        connection.request("GET", _target(url), headers=_headers(api_key))
        connection.response_class = partial(_response, until_s)  # type: ignore[assignment]
        with connection.getresponse() as response:
            if response.status != http.client.OK:
                raise FetchError("status", url, f"answered {response.status}", response.status)
            return _body(response, url, limits.bytes_max)
    except TimeoutError as error:
        raise FetchError("timeout", url, f"no answer within {limits.time_ms} ms") from error
    except OSError as error:
        raise FetchError("refused", url, f"{type(error).__name__}: {error}") from error
    except (http.client.HTTPException, ValueError) as error:
        raise FetchError("broken", url, f"{type(error).__name__}: {error}") from error
    finally:
        connection.close()


def _connection(url: str, timeout_s: float, ca_file: Path | None = None) -> http.client.HTTPConnection:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("must be http://host:port/path or https://host:port/path")
    if parts.scheme == "http":
        return http.client.HTTPConnection(parts.hostname, parts.port, timeout=timeout_s)
    context = ssl.create_default_context(cafile=ca_file)
    return http.client.HTTPSConnection(parts.hostname, parts.port, timeout=timeout_s, context=context)


def _target(url: str) -> str:
    parts = urlsplit(url)
    return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


def _headers(api_key: str | None) -> dict[str, str]:
    headers = {"Accept": "text/plain, application/json", "Accept-Encoding": "identity", "Connection": "close"}
    return headers | ({"Authorization": f"Bearer {api_key}"} if api_key else {})


class _Received(io.RawIOBase):
    """What a socket receives until then: each read has the time that is left, so that no drip outlasts it."""

    def __init__(self, connected: socket.socket, until_s: float) -> None:
        super().__init__()
        self._connected = connected
        self._raw = connected.makefile("rb", buffering=0)
        self._until_s = until_s

    def makefile(self, _mode: str) -> io.BufferedReader:
        """All that a response wants of its socket."""
        return io.BufferedReader(self)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        """``TimeoutError`` when the time is over."""
        left_s = self._until_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        self._connected.settimeout(left_s)
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


def _response(until_s: float, connected: socket.socket, **about: Any) -> http.client.HTTPResponse:
    return http.client.HTTPResponse(_Received(connected, until_s), **about)  # type: ignore[arg-type]


def _body(response: http.client.HTTPResponse, url: str, bytes_max: int) -> bytes:
    """Read as it comes, so that no body without end outlasts its limit."""
    body = bytearray()
    while not response.isclosed():  # from Python 3.11.8 and 3.12.2 it closes its socket with the last byte it announced
        chunk = response.read1(CHUNK_BYTES)
        if not chunk:
            break
        body += chunk
        if len(body) > bytes_max:
            raise FetchError("too_large", url, f"more than {bytes_max} bytes")
    if response.length:
        raise http.client.IncompleteRead(bytes(body[:0]), response.length)
    return bytes(body)
