"""The real dashboard behind a reverse proxy that logs people in, and its users' own tokens. No database is needed: who
may do what is decided before any query."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from fleetpulse.stack import ports
from tests.integration.dashboard_rig import READY_WITHIN_S, address_of, eventually

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]

HTML = {"accept": "text/html"}
HEADER = "X-Forwarded-User"
PASSWORDS = {"ada": "of ada", "bob": "of bob", "mallory": "of mallory"}
"""What the stand-in for an identity provider knows."""


def fleetpulse(*words: str) -> str:
    return subprocess.run(
        [sys.executable, "-m", "fleetpulse", *words], check=True, capture_output=True, text=True
    ).stdout.strip()


class Login:
    """A reverse proxy as one with OIDC in it behaves: no session, no page; the user's name in a header of its own,
    which takes the place of whatever the client sent under that name."""

    def __init__(self, upstream: str) -> None:
        self._upstream = upstream
        self._sessions: dict[str, str] = {}
        routes = [
            Route("/oauth/callback", self._callback),
            Route("/{path:path}", self._pass_on, methods=["GET", "POST"]),
        ]
        self.app = Starlette(routes=routes)

    async def _callback(self, request: Request) -> Response:
        name = request.query_params["name"]
        if PASSWORDS.get(name) != request.query_params["password"]:
            return Response("the identity provider does not know you", 403)
        session = secrets.token_hex(16)
        self._sessions[session] = name
        response = RedirectResponse("/", 303)
        response.set_cookie("session", session, httponly=True)
        return response

    async def _pass_on(self, request: Request) -> Response:
        name = self._sessions.get(request.cookies.get("session", ""))
        if name is None:
            return RedirectResponse("/oauth/start", 303)
        left_out = (HEADER.lower(), "content-length")
        headers = [(key, value) for key, value in request.headers.items() if key not in left_out]
        async with httpx.AsyncClient(base_url=self._upstream, timeout=60) as upstream:
            answer = await upstream.request(
                request.method, request.url.path, headers=[*headers, (HEADER, name)], content=await request.body()
            )
        kind = answer.headers.get("content-type", "")
        return Response(answer.content, answer.status_code, {"content-type": kind})


@contextlib.contextmanager
def served(app: Starlette) -> Iterator[str]:
    """The address of an application, in a thread of its own."""
    port = ports.free_ports(1, start=secrets.randbelow(5_000))[0]
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=port, log_config=None, lifespan="off"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        eventually(lambda: server.started, READY_WITHIN_S, "the reverse proxy listens")
        yield address_of(port)
    finally:
        server.should_exit = True
        thread.join()


@pytest.fixture(scope="module")
def users_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ada operates by the proxy, Carl by a token, Dora looks by a token."""
    return tmp_path_factory.mktemp("users") / "users.json"


@pytest.fixture(scope="module")
def tokens(users_file: Path) -> dict[str, str]:
    """By name."""
    file = ("--users-file", str(users_file))
    fleetpulse("users", "add", "ada", "--role", "operator", "--by-proxy", *file)
    return {
        "carl": fleetpulse("users", "add", "carl", "--role", "operator", *file),
        "dora": fleetpulse("users", "add", "dora", *file),
    }


@pytest.fixture(scope="module")
def log(users_file: Path) -> Path:
    """What the dashboard prints."""
    return users_file.with_name("dashboard.log")


@pytest.fixture(scope="module")
def dashboard(users_file: Path, tokens: dict[str, str], log: Path) -> Iterator[str]:
    """A dashboard whose database is away."""
    assert tokens
    port = ports.free_ports(1, start=secrets.randbelow(5_000))[0]
    words = ("dashboard", "--port", str(port), "--users-file", str(users_file), "--login-header", HEADER)
    environment = os.environ | {
        "FLEETPULSE_DATA_DIR": str(users_file.parent),
        "FLEETPULSE_CLICKHOUSE__URL": "http://127.0.0.1:9",
        "FLEETPULSE_CLICKHOUSE_READER__URL": "http://127.0.0.1:9",
    }
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "fleetpulse", *words, "--trusted-proxy", "127.0.0.1"],
            stdout=output, stderr=output, env=environment,
        )  # fmt: skip
        try:
            eventually(lambda: answers(address_of(port)), READY_WITHIN_S, f"the dashboard answers, see {log}")
            yield address_of(port)
        finally:
            process.terminate()
            process.wait()


def answers(address: str) -> bool:
    try:
        return httpx.get(f"{address}/healthz").status_code == 200
    except httpx.TransportError:
        return False


@pytest.fixture(scope="module")
def proxy(dashboard: str) -> Iterator[str]:
    """The address that people know."""
    with served(Login(dashboard).app) as address:
        yield address


def who(page: str) -> str:
    """Name and role, as every page shows them at the foot of its menu."""
    return " ".join(re.findall(r"([\w.@-]+), (viewer|operator)", page)[0])


@contextlib.contextmanager
def logged_in(proxy: str, name: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=proxy, headers=HTML, timeout=60) as client:
        client.get("/oauth/callback", params={"name": name, "password": PASSWORDS[name]})
        yield client


@pytest.mark.parametrize(("name", "role"), [("ada", "operator"), ("bob", "viewer")])
def test_the_proxy_says_who_it_is_and_the_users_file_who_operates(proxy: str, name: str, role: str) -> None:
    """Of the page Alerts an operator gets the button that silences, a viewer a sentence; whoever has no session at the
    proxy gets no page, and a name that the client sends under the header is thrown away by the proxy."""
    with logged_in(proxy, name) as browser:
        page = browser.get("/alerts", headers={HEADER: "ada"})
    stranger = httpx.get(f"{proxy}/alerts", headers={HEADER: "ada"})

    assert (page.status_code, who(page.text)) == (200, f"{name} {role}")
    assert ("Silence for" in page.text) is (role == "operator")
    assert ("An operator may silence this alert" in page.text) is (role == "viewer")
    assert (stranger.status_code, stranger.headers["location"]) == (303, "/oauth/start")


def test_only_the_proxys_address_is_believed(dashboard: str) -> None:
    """The same header from another address of this machine opens nothing."""
    believed = httpx.get(f"{dashboard}/alerts", headers={**HTML, HEADER: "bob"}, timeout=60)
    with httpx.Client(transport=httpx.HTTPTransport(local_address="127.0.0.2")) as elsewhere:
        refused = elsewhere.get(f"{dashboard}/alerts", headers={**HTML, HEADER: "ada"})

    assert who(believed.text) == "bob viewer"
    assert (refused.status_code, refused.headers["location"]) == (303, "/login?next=%2Falerts")


def test_a_user_logs_in_by_a_token_until_revoked(
    dashboard: str, tokens: dict[str, str], users_file: Path, log: Path
) -> None:
    """Each is known by name; who is revoked is outside at once, with the cookie and with the token. No token is in the
    log, on a page or in the file of users."""
    pages = []
    for name, role in (("carl", "operator"), ("dora", "viewer")):
        with httpx.Client(base_url=dashboard, headers=HTML, timeout=60) as browser:
            browser.post("/login", data={"token": tokens[name]}, headers={"origin": dashboard})
            pages.append(browser.get("/alerts").text)
            assert who(pages[-1]) == f"{name} {role}"
            fleetpulse("users", "revoke", name, "--users-file", str(users_file))
            assert browser.get("/alerts").status_code == 303
        bearer = {"authorization": f"Bearer {tokens[name]}"}
        assert httpx.get(f"{dashboard}/alerts", headers=bearer).status_code == 401

    shown = "".join((*pages, log.read_text(), users_file.read_text()))
    assert [token for token in tokens.values() if token in shown] == []


def test_another_sites_form_logs_nobody_in(dashboard: str, tokens: dict[str, str]) -> None:
    """What a person does would stand under another name."""
    answer = httpx.post(f"{dashboard}/login", data={"token": tokens["carl"]}, headers={"origin": "http://evil.example"})

    assert (answer.status_code, "set-cookie" in answer.headers) == (403, False)
