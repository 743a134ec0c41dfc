"""The guard in front of the application: refusals, logging in, headers."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from fleetpulse.dashboard import guard
from fleetpulse.dashboard.guard import USER, Guard
from fleetpulse.dashboard.security import COOKIE, HEADERS, Access
from fleetpulse.dashboard.users import OPERATOR, VIEWER, User, UsersFile, changing, cookie_value, proof_hash

TOKEN = "0123456789abcdef"
HTML = {"accept": "text/html"}


def client(access: Access) -> httpx.AsyncClient:
    routes = [Route(path, lambda _request: PlainTextResponse("page")) for path in ("/", "/fleet", "/healthz")]
    transport = httpx.ASGITransport(Guard(Starlette(routes=routes), access))
    return httpx.AsyncClient(transport=transport, base_url="http://localhost")


async def test_without_a_token_pages_are_open_and_carry_the_headers() -> None:
    """On loopback."""
    async with client(Access()) as browser:
        answer = await browser.get("/fleet")

    assert (answer.status_code, answer.text) == (200, "page")
    assert {name: answer.headers[name] for name in HEADERS} == HEADERS


@pytest.mark.parametrize("leaves", [True, False])
async def test_a_browser_that_left_is_no_error(leaves: bool) -> None:
    """Starlette's middleware raises where the application ends without an answer; it still does while one waits."""

    class Passes(BaseHTTPMiddleware):
        async def dispatch(self, request: Request, call_next: RequestResponseEndpoint) -> Response:
            return await call_next(request)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if leaves:
            assert (await receive())["type"] == "http.disconnect"

    async def receive() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        raise AssertionError(message)

    scope = {
        "type": "http",
        "method": "GET",
        "path": "/fleet",
        "query_string": b"",
        "headers": [(b"host", b"localhost")],
    }
    with nullcontext() if leaves else pytest.raises(RuntimeError, match="No response returned"):
        await Guard(Passes(app), Access())(scope, receive, send)


async def test_another_host_name_is_refused() -> None:
    """Before anything else is looked at."""
    async with client(Access()) as browser:
        answer = await browser.get("/fleet", headers={"host": "evil.example"})

    assert answer.status_code == 421
    assert answer.headers["X-Frame-Options"] == "DENY"


async def test_a_browser_is_sent_to_the_login_and_comes_back() -> None:
    """With the page it wanted, and a cookie that no script and no other site can use."""
    async with client(Access(TOKEN)) as browser:
        sent = await browser.get("/fleet?last=6h&model=a%26b", headers=HTML)
        form = await browser.get(sent.headers["location"])
        entered = await browser.post("/login", data={"token": TOKEN, "next": "/fleet?last=6h&model=a%26b"})
        page = await browser.get("/fleet", headers=HTML)

    assert (sent.status_code, sent.headers["location"]) == (303, "/login?next=%2Ffleet%3Flast%3D6h%26model%3Da%2526b")
    assert 'value="/fleet?last=6h&amp;model=a%26b"' in form.text
    assert (entered.status_code, entered.headers["location"]) == (303, "/fleet?last=6h&model=a%26b")
    assert {"HttpOnly", "SameSite=strict"} <= set(entered.headers["set-cookie"].split("; "))
    assert page.text == "page"


async def test_a_token_in_an_address_is_no_login() -> None:
    """It would stay in the logs of what stands before this server; a link has it behind #, for the form's script."""
    async with client(Access(TOKEN)) as browser:
        answer = await browser.get(f"/fleet?token={TOKEN}", headers=HTML)
        form = await browser.get("/login")

    assert answer.headers["location"].startswith("/login?next=")
    assert "set-cookie" not in answer.headers
    assert '"#token="' in form.text


@pytest.mark.parametrize(
    ("base_url", "headers", "secure"),
    [
        ("http://localhost", {}, False),
        ("https://localhost", {}, True),
        ("http://localhost", {"x-forwarded-proto": "https"}, True),
        ("http://localhost", {"x-forwarded-proto": "http"}, False),
    ],
)
async def test_behind_tls_the_cookie_never_travels_without(
    base_url: str, headers: dict[str, str], secure: bool
) -> None:
    """TLS of ours, or of the proxy that says so."""
    async with client(Access(TOKEN)) as browser:
        browser.base_url = base_url
        answer = await browser.post("/login", data={"token": TOKEN}, headers=headers)

    assert ("Secure" in answer.headers["set-cookie"].split("; ")) is secure


async def test_a_wrong_token_stays_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """And says so."""
    monkeypatch.setattr(guard, "WRONG_TOKEN_S", 0)
    async with client(Access(TOKEN)) as browser:
        posted = await browser.post("/login", data={"token": TOKEN + "x"})

    assert posted.status_code == 401
    assert "That is not the token." in posted.text
    assert "set-cookie" not in posted.headers


@pytest.mark.parametrize("to", ["//evil.example", "https://evil.example", "/\\evil.example", "", "/\n", "x"])
async def test_the_login_never_leads_to_another_site(to: str) -> None:
    """A page of somebody else becomes the start page."""
    async with client(Access(TOKEN)) as browser:
        answer = await browser.post("/login", data={"token": TOKEN, "next": to})

    assert answer.headers["location"] == "/"


async def test_the_form_escapes_where_it_leads() -> None:
    """A link is anybody's text."""
    async with client(Access(TOKEN)) as browser:
        answer = await browser.get("/login", params={"next": '/"><script>alert(1)</script>'})

    assert answer.text.count("<script") == 1
    assert "alert(1)" in answer.text
    assert "<script>alert" not in answer.text


async def test_programs_learn_how_to_log_in() -> None:
    """And health is open to who has no token."""
    async with client(Access(TOKEN)) as program:
        refused = await program.get("/fleet")
        passed = await program.get("/fleet", headers={"authorization": f"Bearer {TOKEN}"})
        healthy = await program.get("/healthz")

    assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
    assert (passed.status_code, healthy.status_code) == (200, 200)


async def test_without_a_token_but_with_a_proxy_strangers_stay_outside() -> None:
    """There is no form to log in by."""
    access = Access(login_header="X-User", trusted=("127.0.0.1",))
    async with client(access) as browser:
        stranger = await browser.get("/fleet", headers=HTML)
        known = await browser.get("/fleet", headers={"x-user": "ada"})

    assert (stranger.status_code, known.status_code) == (401, 200)


async def test_the_page_learns_who_looks(tmp_path: Path) -> None:
    """And every user's cookie is another, by which that user is known again."""
    with changing(tmp_path / "users.json") as users:
        users += [User("ada", OPERATOR, 1, proof_hash(cookie_value("the token of ada")))]
        users += [User("bob", VIEWER, 1, proof_hash(cookie_value("the token of bob")))]
    access = Access(users=UsersFile(tmp_path / "users.json"))
    seen: list[str] = []

    def page(request: Request) -> PlainTextResponse:
        found: User = request.scope[USER]
        seen.append(f"{found.name} {found.role}")
        return PlainTextResponse("page")

    transport = httpx.ASGITransport(Guard(Starlette(routes=[Route("/", page)]), access))
    for name in ("ada", "bob"):
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as browser:
            await browser.post("/login", data={"token": f"the token of {name}"})
            await browser.get("/", headers=HTML)

    assert seen == ["ada operator", "bob viewer"]


@pytest.mark.parametrize("first", ["ada", "mallory"])
async def test_a_login_header_that_comes_twice_is_refused(first: str) -> None:
    """One of them is the client's own; which one the proxy's is depends on the proxy."""
    async with client(Access(login_header="X-User", trusted=("127.0.0.1",))) as browser:
        both = [("host", "localhost"), ("x-user", first), ("X-User", "mallory" if first == "ada" else "ada")]
        answer = await browser.get("/fleet", headers=both)

    assert answer.status_code == 400


@pytest.mark.parametrize("path", ["/login", "/fleet", "/_nicegui_ws/socket.io/"])
@pytest.mark.parametrize("headers", [{"origin": "http://evil.example"}, {"sec-fetch-site": "cross-site"}])
async def test_another_sites_page_can_send_nothing(path: str, headers: dict[str, str]) -> None:
    """Not the login, which would make somebody else of a visitor, and not what a page's socket may send by POST."""
    cookie = {"cookie": f"{COOKIE}={cookie_value(TOKEN)}"}
    async with client(Access(TOKEN)) as browser:
        answer = await browser.post(path, data={"token": TOKEN}, headers={**headers, **cookie})

    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers


async def test_an_endless_address_is_refused() -> None:
    """Nothing reads it."""
    async with client(Access()) as browser:
        answer = await browser.get("/fleet", params={"model": "m" * 9_000})

    assert answer.status_code == 414


async def socket(access: Access, headers: dict[str, str], path: str = "/socket.io/") -> list[str]:
    """What a web socket is answered; ``accepted`` when it reached the application."""
    sent: list[str] = []

    async def app(_scope: object, _receive: object, _send: object) -> None:
        sent.append("accepted")

    async def send(message: dict[str, object]) -> None:
        sent.append(str(message["type"]))

    pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
    scope = {
        "type": "websocket",
        "path": path,
        "query_string": b"",
        "headers": pairs,
        "client": ("10.0.0.1", 1),
    }
    await Guard(app, access)(scope, None, send)  # type: ignore[arg-type]
    return sent


async def test_web_sockets_need_the_cookie_and_our_own_origin() -> None:
    """Pages live by them: what is refused to pages is refused to sockets."""
    ours = {"host": "localhost", "origin": "http://localhost"}
    cookie = {"cookie": f"{COOKIE}={cookie_value(TOKEN)}"}

    assert await socket(Access(), ours) == ["accepted"]
    assert await socket(Access(), ours | {"origin": "http://evil.example"}) == ["websocket.close"]
    assert await socket(Access(), ours | {"host": "evil.example"}) == ["websocket.close"]
    assert await socket(Access(TOKEN), ours) == ["websocket.close"]
    assert await socket(Access(TOKEN), ours | cookie) == ["accepted"]


@pytest.mark.parametrize("access", [Access(), Access(TOKEN)], ids=["open", "token"])
@pytest.mark.parametrize("path", ["/login", "/healthz", "/readyz"])
async def test_no_web_socket_comes_in_where_no_login_is_asked_for(access: Access, path: str) -> None:
    """Whoever tries one is refused, by no traceback."""
    assert await socket(access, {"host": "localhost"}, path) == ["websocket.close"]


async def test_an_origin_that_is_no_address_is_refused() -> None:
    """By no traceback."""
    async with client(Access()) as browser:
        answer = await browser.get("/fleet", headers={"origin": "http://["})

    assert answer.status_code == 403
