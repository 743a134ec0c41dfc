"""The dashboard's process: pages, guard and health under one web server, until SIGTERM."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response
from nicegui import Client, app, ui

from fleetpulse.dashboard import downloads
from fleetpulse.dashboard.data import Data
from fleetpulse.dashboard.guard import USER, Guard
from fleetpulse.dashboard.pages import (
    alerts,
    cost,
    custom,
    engine,
    fleet,
    gpu,
    host,
    models,
    pipeline,
    requests,
    sql,
    tenants,
    training,
)
from fleetpulse.dashboard.pages import request as one_request
from fleetpulse.dashboard.plain_page import not_found
from fleetpulse.dashboard.security import Access
from fleetpulse.dashboard.shell import THEME_COOKIE, Shell
from fleetpulse.dashboard.view import Facts, PageSpec
from fleetpulse.dashboard.zone import ZONE_COOKIE, zone_of
from runtime.config import ClickHouseConfig
from runtime.health import HealthServer, Heartbeat
from runtime.process import run_to_the_end
from runtime.secret_files import read_secret
from schemas.errors import ConfigError

_log = logging.getLogger(__name__)

PAGES: tuple[PageSpec, ...] = tuple(
    module.PAGE
    for module in (
        *(fleet, models, requests, one_request, engine, gpu, host, training, custom),
        *(tenants, cost, alerts, pipeline, sql),
    )
)
"""All pages, in the order of the menu. One more page is one more module."""
FAVICON = (
    "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 24 24'><rect width='24' height='24' rx='6' fill='#2459d3'/>"
    "<path d='M3 13h4l2-6 4 11 3-8 1 3h4' fill='none' stroke='#fff' stroke-width='2' stroke-linejoin='round'/></svg>"
)
STOP_S = 3
RECONNECT_S = 30.0
"""A page outlives a gap of this length, and a browser that takes long to begin; then it reloads."""


@dataclass(frozen=True, slots=True)
class Binding:
    """Where the dashboard listens."""

    host: str
    port: int
    health_port: int | None = None
    """Where /healthz, /readyz and /metrics are served without a login; None: nowhere, 0: any free port."""


def application(data: Data, access: Access, facts: Facts, pages: tuple[PageSpec, ...] = PAGES) -> Guard:
    """The ASGI application: everything behind the guard."""
    web = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, lifespan=lambda _web: served(data))
    web.add_api_route("/healthz", lambda: JSONResponse({"ok": True, "why": None}), include_in_schema=False)
    web.add_api_route("/readyz", lambda: _ready(data), include_in_schema=False)
    web.add_api_route(f"{downloads.PATH}/{{key}}", download_of(data), response_model=None, include_in_schema=False)
    web.add_api_route("/", lambda: RedirectResponse(pages[0].path), include_in_schema=False)
    for page in pages:
        _route(page, pages, data, facts, access)
    app.add_exception_handler(404, _not_found(pages))  # NiceGUI's own page knows no way back
    app.config.endpoint_documentation = "none"
    ui.run_with(
        web,
        title="fleetpulse",
        favicon=FAVICON,
        tailwind=False,
        show_welcome_message=False,
        language="en-US",
        reconnect_timeout=RECONNECT_S,
    )
    return Guard(web, access)


@contextlib.asynccontextmanager
async def served(data: Data) -> AsyncIterator[None]:
    """While pages are served, what they ask looks by itself whether ClickHouse answers; at the end it is closed."""
    looking = asyncio.create_task(data.look())
    yield
    looking.cancel()
    await asyncio.wait({looking})
    await data.close()


def _route(page: PageSpec, pages: tuple[PageSpec, ...], data: Data, facts: Facts, access: Access) -> None:
    @ui.page(page.path, title=f"{page.title} · fleetpulse", response_timeout=10.0)
    async def show(client: Client, request: Request) -> None:
        dark = request.cookies.get(THEME_COOKIE) == "dark"
        zone = zone_of(request.cookies.get(ZONE_COOKIE))
        user = partial(access.now, request.scope[USER])
        await Shell(pages, page, data, facts).open(client, dict(request.query_params), user, dark=dark, zone=zone)


def download_of(data: Data) -> Callable[[str, Request], Awaitable[Response]]:
    """Answers a browser that fetches a file."""
    gone = "this file was fetched, or waited for too long; ask for it again\n"

    async def fetch(key: str, request: Request) -> Response:
        return data.downloads.fetch(key, request.scope[USER]) or PlainTextResponse(gone, 404)

    return fetch


def _not_found(pages: tuple[PageSpec, ...]) -> Callable[[Request, Exception], HTMLResponse]:
    titles = {page.path: page.title for page in pages if page.in_menu}
    return lambda request, _error: HTMLResponse(not_found(request.url.path, titles), 404)


def _ready(data: Data) -> JSONResponse:
    return JSONResponse({"ok": data.trouble is None, "why": data.trouble}, 200 if data.trouble is None else 503)


async def serve(reading: ClickHouseConfig, access: Access, binding: Binding, facts: Facts) -> None:
    """Serve until SIGTERM or Ctrl-C; ``ConfigError`` when the port is taken."""
    data = Data(reading)
    settings = uvicorn.Config(
        application(data, access, facts),
        host=binding.host,
        port=binding.port,
        log_config=None,
        log_level="warning",  # its lines name the addresses that browsers ask for
        access_log=False,
        server_header=False,
        proxy_headers=False,  # a peer's word about its address would open the door of --login-header to anybody
        timeout_graceful_shutdown=STOP_S,
        ws_max_size=1_000_000,
    )
    server = uvicorn.Server(settings)
    _log.info("dashboard starting", extra={"host": binding.host, "port": binding.port})
    try:
        with _health(binding.health_port, data):
            await server.serve()
    except SystemExit as error:  # uvicorn's way of saying that it could not listen
        address = f"{binding.host}:{binding.port}"
        raise ConfigError("--port", address, "must be free to listen on; --port takes another") from error


def token_of(token: str | None, token_file: Path | None) -> str | None:
    """The token; None for none. ``ConfigError`` for both at once and for a file that can't be read."""
    if token_file is None:
        return token
    if token is not None:
        raise ConfigError("--token-file", str(token_file), "must stand alone: a token is given too; leave one out")
    return read_secret("--token-file", token_file).strip()


def _health(port: int | None, data: Data) -> contextlib.AbstractContextManager[object]:
    if port is None:
        return contextlib.nullcontext()
    heartbeat = Heartbeat()
    heartbeat.follow(asyncio.get_running_loop())
    return HealthServer(port=port, alive=heartbeat.why_dead, ready=lambda: data.trouble)


def run(reading: ClickHouseConfig, access: Access, binding: Binding, facts: Facts) -> None:
    """``serve`` in a loop of its own."""
    run_to_the_end(serve(reading, access, binding, facts))
