"""HTTP client of one target: one POST, a bounded response. Redirects are not followed, TLS is always verified."""

from __future__ import annotations

import asyncio
import logging

import httpx

from runtime.clock import Clock
from runtime.delivery_config import TargetConfig
from runtime.tls import ssl_context
from sinks.delivery.request import Request
from sinks.delivery.schedule import Response, retry_after_ms

RESPONSE_BYTES_MAX = 4_096
"""Read of a response's body; then the connection is closed."""
DETAIL_MAX = 200
UNSENDABLE = 400
"""Status in place of a response when no request can be made of a transition: a retry would not help."""
HIDDEN = "***"
for _name in ("httpx", "httpcore"):
    logging.getLogger(_name).setLevel(logging.WARNING)  # at INFO it logs every address, and addresses hold tokens


class Client:
    """Posts to one target. Use as an async context manager."""

    def __init__(
        self, config: TargetConfig, clock: Clock, *, transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        self._config = config
        self._clock = clock
        limits = httpx.Limits(max_connections=config.parallel_max, max_keepalive_connections=config.parallel_max)
        self._http = httpx.AsyncClient(
            verify=ssl_context(f"delivery.targets.{config.name}.ca_file", (config.ca_file, None, None)),
            timeout=config.timeout_s,
            limits=limits,
            follow_redirects=False,
            transport=transport,
        )

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._http.aclose()

    async def post(self, request: Request) -> Response:
        """Post it; whatever the network does is a response too (status 0), and so is what no request can hold (400)."""
        try:
            headers = request.headers(self._config, self._clock.now_ms())
            async with asyncio.timeout(self._config.timeout_s):
                return await self._post(request.body, headers)
        except TimeoutError:
            return Response(0, f"no response within {self._config.timeout_s:g} s")
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, OSError) as error:
            return Response(0, self._detail(f"{type(error).__name__}: {error}"))
        except ValueError as error:  # text that no header holds
            return Response(UNSENDABLE, self._detail(f"cannot be sent: {error}"))

    async def _post(self, body: bytes, headers: dict[str, str]) -> Response:
        async with self._http.stream("POST", self._config.url, content=body, headers=headers) as response:
            read = b""
            async for chunk in response.aiter_raw():
                read += chunk[: RESPONSE_BYTES_MAX - len(read)]
                if len(read) >= RESPONSE_BYTES_MAX:
                    break
            pause_ms = retry_after_ms(response.headers.get("Retry-After"), self._clock.now_ms())
            text = read.decode("utf-8", "replace")
            if len(read) >= RESPONSE_BYTES_MAX:
                text = self._without_end(text.rstrip("\N{REPLACEMENT CHARACTER}"))
            return Response(response.status_code, self._detail(text), pause_ms)

    def _detail(self, text: str) -> str:
        """One line without what must stay secret, looked for both as it came and as it is shown."""
        line = " ".join(self._masked(text).split())
        return self._masked("".join(c for c in line if c.isprintable()))[:DETAIL_MAX]

    def _masked(self, text: str) -> str:
        for secret in self._config.secrets:
            text = text.replace(secret, HIDDEN)
        return text

    def _without_end(self, text: str) -> str:
        """The text, which was cut, without the beginning of a secret that the cut left of it."""
        text = self._masked(text)
        sizes = (n for one in self._config.secrets for n in range(1, len(one)) if text.endswith(one[:n]))
        size = max(sizes, default=0)
        return text[: len(text) - size] + HIDDEN if size else text
