"""Who may look, and the headers that make browsers forbid the rest; ``guard`` applies both to pages and web sockets.

Three ways in, decided once at start-up: everybody who reaches a loopback address; whoever knows the token (the login
form, a link to ``/login#token=``, then a cookie); whomever a reverse proxy at a trusted address names in a header. A
Host header that is not one of ours is rejected, so that no foreign name can be made to point here (DNS rebinding), and
a web socket from another site's page is rejected by its Origin.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from urllib.parse import urlsplit

from runtime.addresses import is_loopback
from schemas.errors import ConfigError

COOKIE = "fleetpulse_dashboard"
COOKIE_S = 30 * 86_400
TOKEN_CHARS_MIN = 16
OPEN_PATHS = ("/login", "/healthz", "/readyz")
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
    "Referrer-Policy": "no-referrer",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


@dataclass(frozen=True, slots=True, repr=False)
class Access:
    """``token`` "" asks for none. ``login_header`` "" takes nobody's word; else that of peers in ``trusted``."""

    token: str = ""
    login_header: str = ""
    trusted: tuple[str, ...] = ()
    hosts: tuple[str, ...] = LOOPBACK_NAMES
    """Names this server answers to; "*" takes any."""

    def cookie_value(self) -> str:
        """What the cookie holds: proof that the token was known, not the token."""
        return hmac.new(self.token.encode(), b"fleetpulse dashboard", hashlib.sha256).hexdigest()

    def knows_token(self, given: str) -> bool:
        """Whether this is the token; takes as long for any text."""
        return bool(self.token) and hmac.compare_digest(_digest(given), _digest(self.token))

    def lets_in(self, headers: Mapping[str, str], peer: str) -> bool:
        """Whether a request with these headers (lower-case names) from this address may see pages."""
        if self.login_header and peer in self.trusted and headers.get(self.login_header.lower(), "").strip():
            return True
        if not self.token:
            return not self.login_header
        scheme, _, bearer = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self.knows_token(bearer.strip()):
            return True
        return hmac.compare_digest(_digest(_cookie(headers.get("cookie", ""))), _digest(self.cookie_value()))

    def host_is_ours(self, host: str) -> bool:
        """Whether the Host header names this server, whatever the port."""
        return "*" in self.hosts or _name_of(f"//{host}") in self.hosts

    def origin_is_ours(self, headers: Mapping[str, str]) -> bool:
        """Whether a web socket was opened by one of our own pages; programs send no Origin."""
        origin = headers.get("origin")
        return origin is None or (urlsplit(origin).netloc.lower() == headers.get("host", "").lower())


def access_for(host: str, token: str | None, login_header: str | None, trusted: tuple[str, ...],
               names: tuple[str, ...] = ()) -> Access:  # fmt: skip
    """The rules for a server bound to ``host``; ``ConfigError`` when it would be open to the network."""
    if token is not None and len(token) < TOKEN_CHARS_MIN:
        raise ConfigError("--token", "...", f"must have at least {TOKEN_CHARS_MIN} characters")
    if login_header and not trusted:
        raise ConfigError("--login-header", login_header, "needs --trusted-proxy, the address that may send it")
    for peer in trusted:
        _address(peer)
    if not is_loopback(host) and not token and not login_header:
        raise ConfigError(
            "--host",
            host,
            "is reachable from the network: give --token-file or FLEETPULSE_DASHBOARD_TOKEN, or --login-header",
        )
    own = (*LOOPBACK_NAMES, host.lower(), *(name.lower() for name in names))
    # Bound to every address, the names in use are not known here; the token or the proxy keeps strangers out.
    hosts = ("*",) if host in ("0.0.0.0", "::") and not names else own
    return Access(token or "", login_header or "", trusted, hosts)


def _address(peer: str) -> None:
    try:
        ipaddress.ip_address(peer)
    except ValueError as error:
        raise ConfigError("--trusted-proxy", peer, "must be an IP address") from error


def _digest(text: str) -> bytes:
    """Equal lengths, so that a comparison reveals nothing about the length either."""
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()


def _cookie(header: str) -> str:
    try:
        found = SimpleCookie(header[:8_192]).get(COOKIE)
    except CookieError:
        return ""
    return found.value if found else ""


def _name_of(address: str) -> str:
    try:
        return (urlsplit(address).hostname or "").lower()
    except ValueError:
        return ""
