"""The ASGI wrapper that applies ``security``: rejects, asks to log in, sets headers. It stands before NiceGUI."""

from __future__ import annotations

import asyncio
import html
import logging
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any
from urllib.parse import parse_qs, quote

from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response

from fleetpulse.dashboard.plain_page import plain_page
from fleetpulse.dashboard.security import COOKIE, COOKIE_S, HEADERS, OPEN_PATHS, Access
from fleetpulse.dashboard.users import User, cookie_value

_log = logging.getLogger(__name__)
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

USER = "fleetpulse.user"
"""Where pages find in the scope who looks."""
WRONG_TOKEN_S = 0.5
"""How long an answer to a wrong token waits: slows guessing, holds nothing up."""
_BODY_BYTES_MAX = 4_096
_QUERY_BYTES_MAX = 8_192
_LOGIN = """<form method="post" action="/login"><h1>fleetpulse</h1><p class="w" role="alert">{error}</p>
<label for="token">Token of this dashboard</label>
<input id="token" name="token" type="password" autocomplete="current-password" required autofocus>
<input type="hidden" name="next" value="{to}"><button>Log in</button></form>
<script>if (location.hash.startsWith("#token=")) {{ const form = document.forms[0];
form.token.value = decodeURIComponent(location.hash.slice(7)); history.replaceState(null, "", location.pathname);
form.submit(); }}</script>"""
"""A link with the token, ``/login#token=...``, fills the form: what stands behind # is sent to no server, so that no
log of a proxy holds it."""


class Guard:
    """Wraps the whole application."""

    def __init__(self, app: App, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request or one web socket."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        refusal = await self._refusal(scope, headers, receive)
        if scope["type"] == "http":
            await _while_there(refusal or self._app, scope, receive, _with_headers(send))
        elif refusal:
            await send({"type": "websocket.close", "code": 1008})
        else:
            await self._app(scope, receive, send)

    async def _refusal(self, scope: Scope, headers: dict[str, str], receive: Receive) -> Response | None:
        """What to answer instead of the page; None lets it through, with who it is in the scope."""
        access = self._access
        if not access.host_is_ours(headers.get("host", "")):
            return PlainTextResponse("this server has another name; see --allowed-host\n", 421)
        if len(scope["query_string"]) > _QUERY_BYTES_MAX:
            return PlainTextResponse("the address is too long\n", 414)
        if not access.may_change(scope.get("method", "GET"), headers):
            return PlainTextResponse("this came from another site's page\n", 403)
        if scope["type"] == "websocket" and scope["path"] in OPEN_PATHS:
            return PlainTextResponse("no page's socket is here\n", 404)
        if scope["path"] == "/login" and access.asks_token():
            return await self._login(scope, headers, receive)
        if scope["path"] in OPEN_PATHS:
            return None
        if access.login_header and _repeats(scope, access.login_header):
            return PlainTextResponse(f"{access.login_header} came more than once\n", 400)
        user: User | None = access.user_of(headers, (scope.get("client") or ("", 0))[0])
        if user is not None:
            scope[USER] = user
            return None
        if not access.asks_token():
            return PlainTextResponse("log in at the proxy before this server\n", 401)
        if "text/html" not in headers.get("accept", ""):
            return PlainTextResponse("needs Authorization: Bearer TOKEN\n", 401, {"WWW-Authenticate": "Bearer"})
        query = scope["query_string"].decode("latin-1")
        wanted = f"{scope['path']}?{query}" if query else scope["path"]
        return RedirectResponse(f"/login?next={quote(wanted, safe='')}", 303)

    async def _login(self, scope: Scope, headers: Mapping[str, str], receive: Receive) -> Response:
        if scope["method"] != "POST":
            query = parse_qs(scope["query_string"].decode("latin-1"))
            return _form(query.get("next", ["/"])[0])
        fields = parse_qs((await _body(receive)).decode("utf-8", "replace"))
        token, to = fields.get("token", [""])[0], fields.get("next", ["/"])[0]
        if self._access.knows_token(token) is None:
            await asyncio.sleep(WRONG_TOKEN_S)
            return _form(to, "That is not the token.", 401)
        response = RedirectResponse(_own_path(to), 303)
        response.set_cookie(
            COOKIE,
            cookie_value(token),
            max_age=COOKIE_S,
            httponly=True,
            samesite="strict",
            path="/",
            secure=_came_by_tls(scope, headers),
        )
        return response


def _form(to: str, error: str = "", status: int = 200) -> Response:
    form = _LOGIN.format(error=html.escape(error), to=html.escape(_own_path(to), quote=True))
    return HTMLResponse(plain_page("log in", form), status)


def _repeats(scope: Scope, header: str) -> bool:
    """Whether a header came twice: one of them is the client's own, and a proxy that adds its word may stand first."""
    wanted = header.lower().encode("latin-1")
    return sum(name.lower() == wanted for name, _ in scope["headers"]) > 1


def _own_path(to: str) -> str:
    """A path of this server; anything else, such as another site, becomes the start page."""
    good = to.startswith("/") and not to.startswith(("//", "/\\")) and to.isprintable() and len(to) < _QUERY_BYTES_MAX
    return to if good else "/"


def _came_by_tls(scope: Scope, headers: Mapping[str, str]) -> bool:
    """Whoever says so: a lie keeps the cookie of who lied from coming back."""
    return scope.get("scheme") == "https" or headers.get("x-forwarded-proto", "").strip().lower() == "https"


async def _body(receive: Receive) -> bytes:
    body = b""
    while len(body) <= _BODY_BYTES_MAX:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            break
    return body[:_BODY_BYTES_MAX]


async def _while_there(app: App, scope: Scope, receive: Receive, send: Send) -> None:
    """Run the application. That it has no answer to a browser that left is no error."""
    left = False

    async def hearing() -> MutableMapping[str, Any]:
        nonlocal left
        message = await receive()
        left = left or message["type"] == "http.disconnect"
        return message

    try:
        await app(scope, hearing, send)
    except RuntimeError as error:  # of Starlette's own middleware
        if not left:
            raise
        _log.debug("the browser left before its answer", extra={"path": scope["path"], "why": str(error)})


def _with_headers(send: Send) -> Send:
    async def sending(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            ours = {name.lower().encode(): value.encode() for name, value in HEADERS.items()}
            message["headers"] = [pair for pair in message["headers"] if pair[0].lower() not in ours]
            message["headers"] += list(ours.items())
        await send(message)

    return sending
