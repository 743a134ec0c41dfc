"""Who may look, and the headers that make browsers forbid the rest; ``guard`` applies both to pages and web sockets.

Three ways in: everybody who reaches a loopback address, as long as there is no token; whoever knows the one token or
that of a user (the login form, a link to ``/login#token=``, then a cookie); whomever a reverse proxy at a trusted
address names in a header. A Host header that is not one of ours is rejected, so that no foreign name can be made to
point here (DNS rebinding), and so is what another site's page sends, by its Origin: web sockets, forms, scripts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.requests import cookie_parser

from fleetpulse.dashboard.users import OPERATOR, VIEWER, User, UsersFile, cookie_value, holder, proof_hash
from runtime.addresses import ip_of, is_loopback, is_wildcard
from schemas.errors import ConfigError

COOKIE = "fleetpulse_dashboard"
COOKIE_S = 30 * 86_400
TOKEN_CHARS_MIN = 16
OPEN_PATHS = ("/login", "/healthz", "/readyz")
LOCAL = User("local", OPERATOR)
"""Who is not asked to log in: on loopback, without a token."""
HOLDER = "token"
"""Name of whoever knows the one token that has no name of its own."""
NAME_CHARS_MAX = 256
"""Of a name that a reverse proxy sends; an alert's silence can name no longer one."""
_SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")

POLICY = "; ".join(
    (
        "default-src 'self'",
        # NiceGUI starts its pages by an inline script and lets Vue compile templates: both need these two words.
        "script-src 'self' 'unsafe-inline' 'unsafe-eval'",
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' data: blob:",
        "font-src 'self' data:",
        "connect-src 'self'",
        "object-src 'none'",
        "base-uri 'self'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    # With "no-referrer" browsers send the login form with the Origin "null", as another site's page would.
    "Referrer-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


@dataclass(frozen=True, slots=True, repr=False)
class Access:
    """``token`` "" is none. ``login_header`` "" takes nobody's word; else that of peers in ``trusted``."""

    token: str = ""
    login_header: str = ""
    trusted: tuple[str, ...] = ()
    hosts: tuple[str, ...] = LOOPBACK_NAMES
    """Names this server answers to; "*" takes any."""
    users: UsersFile | None = None

    def asks_token(self) -> bool:
        """Whether there is a token to log in with."""
        return bool(self.token) or bool(self.users and (self.users.users() or self.users.exists))

    def knows(self, cookie: str) -> User | None:
        """Whose cookie this is; takes as long for any text."""
        return holder(self._holders(), cookie)

    def knows_token(self, given: str) -> User | None:
        """Whose token this is; takes as long for any text."""
        return self.knows(cookie_value(given))

    def user_of(self, headers: Mapping[str, str], peer: str) -> User | None:
        """Who sent a request with these headers (lower-case names) from this address; None may see no page."""
        if self.login_header and peer in self.trusted:
            name = headers.get(self.login_header.lower(), "").strip()
            if name and name.isprintable() and len(name) <= NAME_CHARS_MAX:
                return self._named(name)
        if not self.asks_token():
            return None if self.login_header else LOCAL
        scheme, _, bearer = headers.get("authorization", "").partition(" ")
        found = self.knows_token(bearer.strip()) if scheme.lower() == "bearer" else None
        return found or self.knows(_cookie(headers.get("cookie", "")))

    def now(self, user: User) -> User | None:
        """Who was let in once, as of now: with today's role; None who was revoked meanwhile."""
        if user is LOCAL:
            return None if self.asks_token() or self.login_header else LOCAL
        if not user.proof_hash:
            return self._named(user.name)
        same = (user.name, user.proof_hash)
        return next((one for one in self._holders() if (one.name, one.proof_hash) == same), None)

    def _holders(self) -> tuple[User, ...]:
        """Who has a token: whoever knows the one without a name, and the users of the file."""
        users = self.users.users() if self.users else ()
        own = (User(HOLDER, OPERATOR, 0, proof_hash(cookie_value(self.token))),) if self.token else ()
        return (*own, *users)

    def _named(self, name: str) -> User:
        return self.users.named(name) if self.users else User(name, VIEWER)

    def host_is_ours(self, host: str) -> bool:
        """Whether the Host header names this server, whatever the port."""
        return "*" in self.hosts or _name_of(f"//{host}") in self.hosts

    def origin_is_ours(self, headers: Mapping[str, str]) -> bool:
        """Whether one of our own pages sent it, as far as it was a page; programs send no Origin."""
        origin = headers.get("origin")
        if origin is None:
            return True
        try:
            return urlsplit(origin).netloc.lower() == headers.get("host", "").lower()
        except ValueError:
            return False

    def may_change(self, method: str, headers: Mapping[str, str]) -> bool:
        """Whether another site's page cannot have sent it; what only reads may come by a link from anywhere."""
        if not self.origin_is_ours(headers):
            return False
        return method in _SAFE_METHODS or headers.get("sec-fetch-site", "none") in ("same-origin", "none")


def access_for(host: str, token: str | None, login_header: str | None, trusted: tuple[str, ...],
               names: tuple[str, ...] = (), users: UsersFile | None = None) -> Access:  # fmt: skip
    """The rules for a server bound to ``host``; ``ConfigError`` when it would be open to the network."""
    if token is not None and len(token) < TOKEN_CHARS_MIN:
        raise ConfigError("--token", "...", f"must have at least {TOKEN_CHARS_MIN} characters")
    if login_header and not trusted:
        raise ConfigError("--login-header", login_header, "needs --trusted-proxy, the address that may send it")
    for peer in trusted:
        if ip_of(peer) is None:
            raise ConfigError("--trusted-proxy", peer, "must be an IP address")
    if not is_loopback(host) and not token and not login_header and not (users and users.exists):
        raise ConfigError(
            "--host",
            host,
            "is reachable from the network: make users (`fleetpulse users`), or give --token-file or --login-header",
        )
    own = (*LOOPBACK_NAMES, host.lower(), *(name.lower() for name in names))
    # Bound to every address, the names in use are not known here; the token or the proxy keeps strangers out.
    hosts = ("*",) if is_wildcard(host) and not names else own
    return Access(token or "", login_header or "", trusted, hosts, users)


def _cookie(header: str) -> str:
    return cookie_parser(header[:8_192]).get(COOKIE, "")


def _name_of(address: str) -> str:
    try:
        return (urlsplit(address).hostname or "").lower()
    except ValueError:
        return ""
