"""The shell of ``fleetpulse export prometheus``: windows from ClickHouse, out by HTTP, until SIGTERM."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from typing import Any

import httpx

from fleetpulse import queries
from fleetpulse.export.remote import RemoteWrite, Rows
from fleetpulse.export.series import WINDOW_MS
from fleetpulse.export.wire import HEADERS
from fleetpulse.services.jobs_and_sink import health
from runtime import logs
from runtime.backoff import Backoff
from runtime.clickhouse_clients import connect, rows_of
from runtime.clock import SystemClock
from runtime.config import Config, load
from runtime.health import Readiness
from runtime.process import on_stop_signal, run_to_the_end
from runtime.remote_write_config import RemoteWriteConfig
from schemas.errors import ConfigError, FleetpulseError, UnavailableError

_log = logging.getLogger(__name__)

PAUSE = Backoff(1.0, 60.0)
ANSWER_CHARS_MAX = 300
for _name in ("httpx", "httpcore"):
    logging.getLogger(_name).setLevel(logging.WARNING)


class SamplesRejectedError(FleetpulseError):
    """The receiver rejected samples, which are left out."""


def run_export(url: str | None, health_port: int | None, *, once: bool) -> None:
    """Send until SIGTERM, or once. Ready while the receiver takes what is sent, and the
    position is none of a clock that was ahead."""
    logs.configure("export")
    config = load({} if url is None else {"remote_write.url": url})
    if config.remote_write.url is None:
        raise ConfigError("remote_write.url", None, "must name where to write, as --url does")
    receiver = config.remote_write.read("remote_write")
    readiness = Readiness(export="nothing sent yet")
    with health(health_port, readiness.why), Posting(receiver) as post:
        writer = RemoteWrite(receiver, Asking(config), post, config.data_dir / "export" / "prometheus")
        if once:
            _send_once(writer)
        else:
            run_to_the_end(_until_stopped(writer, readiness))


def _send_once(writer: RemoteWrite) -> None:
    """What has settled by now, round by round. Raises ``SamplesRejectedError`` once all was sent."""
    now_ms = SystemClock().now_ms()
    rounds = [writer.round(now_ms)]
    while writer.behind:
        rounds.append(writer.round(now_ms))
    sent, rejected, dropped = (sum(getattr(done, name) for done in rounds) for name in ("sent", "rejected", "dropped"))
    left_out = {name: samples for name, samples in (("rejected", rejected), ("dropped", dropped)) if samples}
    facts = {"from_ms": rounds[0].from_ms, "to_ms": rounds[-1].to_ms, "samples": sent, **left_out}
    _log.info("windows exported", extra=facts)
    if rejected:
        raise SamplesRejectedError(
            f"the receiver rejected {rejected:,} of {sent + rejected:,} samples; the log says why"
        )


async def _until_stopped(writer: RemoteWrite, readiness: Readiness) -> None:
    stop, failures = on_stop_signal(asyncio.get_running_loop()), 0
    while not stop.is_set():
        try:
            await asyncio.to_thread(writer.round, SystemClock().now_ms())
            failures = 0
            if writer.ahead:
                readiness.hold("export", writer.ahead)
            else:
                readiness.release("export")
        except UnavailableError as error:
            failures += 1
            readiness.hold("export", str(error))
            if failures == 1:
                _log.warning("export failing, retrying", extra={"error": str(error)})
        pause_s = PAUSE.pause_s(failures, random.random()) or (0.0 if writer.behind else WINDOW_MS / 1_000)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), pause_s)


class Asking:
    """Asks ClickHouse, by a new connection after a failure."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._client: Any = None

    def __call__(self, query: str, from_ms: int, to_ms: int) -> Rows:
        """Raises ``UnavailableError``."""
        return self._asked(query, queries.text(query), from_ms, to_ms)

    def first_ms(self, query: str, from_ms: int, to_ms: int) -> int | None:
        """Raises ``UnavailableError``."""
        text = f"SELECT minOrNull(window_ms) FROM (\n{queries.text(query)}\n)"
        _names, [(begins_ms,)] = self._asked(query, text, from_ms, to_ms)
        return None if begins_ms is None else int(str(begins_ms))

    def _asked(self, query: str, text: str, from_ms: int, to_ms: int) -> Rows:
        try:
            if self._client is None:
                self._client = connect(self._config.reading)
            answer = self._client.query(text, parameters={"from_ms": from_ms, "to_ms": to_ms})
            return answer.column_names, rows_of(answer)
        except UnavailableError:
            raise
        except Exception as error:
            self._client = None
            raise UnavailableError(f"query {query} failed ({error})") from error


class Posting:
    """Posts bodies over one client while inside."""

    def __init__(self, config: RemoteWriteConfig) -> None:
        token = config.bearer_token
        more = {} if token is None else {"authorization": f"Bearer {token.get_secret_value()}"}
        self._url = config.url or ""
        self._http = httpx.Client(headers={**HEADERS, **more}, timeout=config.within_ms / 1_000)

    def __enter__(self) -> Posting:
        return self

    def __exit__(self, *exc: object) -> None:
        self._http.close()

    def __call__(self, body: bytes) -> tuple[int, str]:
        try:
            answer = self._http.post(self._url, content=body)
        except httpx.HTTPError as error:
            raise OSError(str(error) or type(error).__name__) from error
        return answer.status_code, answer.text[:ANSWER_CHARS_MAX]
