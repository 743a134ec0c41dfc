"""TLS of clients: their context, and failed handshakes in a sentence that names the setting to change."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Self

from pydantic import SecretStr

from schemas.errors import CertificateExpiredError, ConfigError, FleetpulseError

_log = logging.getLogger(__name__)
_State = tuple[int, int, int]
"""Of a file: inode, time of its last change (ns), bytes."""

OUT_OF_TIME = "shows a certificate out of its time"
_OUT_OF_TIME = (9, 10)
_OTHER_NAME = (62, 64)
# Numbers of X509_verify_cert: https://docs.openssl.org/3.0/man3/X509_STORE_CTX_get_error/ (not yet valid, expired; host
# name, IP address).


class RenewedContext(ssl.SSLContext):
    """A client's context whose files may be replaced while it is used (renewed certificates): before a handshake it
    loads those that changed. What cannot be read then is left as it was, and tried again before the next handshake.

    Authorities that a file no longer holds are trusted until the process ends.
    """

    def __new__(cls, *_files: Path | None, password: str) -> Self:
        return super().__new__(cls, ssl.PROTOCOL_TLS_CLIENT)

    def __init__(self, authorities: Path | None, certificate: Path | None, private: Path | None, *, password: str):
        self._files = authorities, certificate, private
        self._password = password
        self._loaded: list[_State] = []
        self.verify_flags = ssl.create_default_context(cafile=authorities).verify_flags
        if authorities is None:
            self.load_default_certs()
        loaded = self._states()
        self._load(self)
        self._loaded = loaded

    def wrap_socket(self, *args: Any, **named: Any) -> ssl.SSLSocket:
        """As its base, with the files as they are now."""
        self._renew()
        return super().wrap_socket(*args, **named)

    def wrap_bio(self, *args: Any, **named: Any) -> ssl.SSLObject:
        """As its base, with the files as they are now."""
        self._renew()
        return super().wrap_bio(*args, **named)

    def _renew(self) -> None:
        try:
            states = self._states()
            if states == self._loaded:
                return
            self._load(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))  # a pair that does not match would spoil this one
            self._load(self)
        except OSError as error:
            facts = {"files": ", ".join(str(file) for file in self._files if file is not None), "error": str(error)}
            _log.warning("changed certificate files cannot be read; those before are used", extra=facts)
        else:
            self._loaded = states

    def _load(self, context: ssl.SSLContext) -> None:
        authorities, certificate, private = self._files
        if authorities is not None:
            context.load_verify_locations(authorities)
        if certificate is not None:
            context.load_cert_chain(certificate, private, self._password)

    def _states(self) -> list[_State]:
        found = [file.stat() for file in self._files if file is not None]
        return [(state.st_ino, state.st_mtime_ns, state.st_size) for state in found]


@cache
def ssl_context(
    key: str, files: tuple[Path | None, Path | None, Path | None], key_password: SecretStr | None = None
) -> ssl.SSLContext:
    """A client's context by the files of authorities, certificate and its key, which are settings at ``key``; files
    that are renewed are loaded again. All clients of the process by these settings share it: one that is made while a
    file is gone goes on with what was read. Raises ConfigError for a file that cannot be read, and was not before."""
    password = key_password.get_secret_value() if key_password else ""  # None would ask at the terminal
    try:
        return RenewedContext(*files, password=password)
    except OSError as error:
        shown = ", ".join(str(file) for file in files if file is not None)
        bound = f"must be readable PEM files, the key without a password or with its own ({error})"
        raise ConfigError(key, shown, bound) from error


def untrusted(error: BaseException, section: str, at: str, ca_key: str, ca_file: Path | None) -> FleetpulseError | None:
    """Why the certificate of the server at ``at`` is not taken, where that is what is behind ``error``; else None.

    ``section`` and ``ca_key`` are keys of the settings that hold the address and the authorities. A certificate that is
    out of its time is the server's affair (``UnavailableError``: try again), everything else ours (``ConfigError``).
    """
    found = next((one for one in _behind(error) if isinstance(one, ssl.SSLCertVerificationError)), None)
    if found is None:
        return None
    said = found.verify_message
    if found.verify_code in _OUT_OF_TIME:
        return CertificateExpiredError(f"{at} {OUT_OF_TIME} ({said}): renew it, or set this clock right")
    if found.verify_code in _OTHER_NAME:
        return ConfigError(section, at, f"must be a name that the server's certificate holds ({said})")
    shown = "the system's authorities" if ca_file is None else str(ca_file)
    return ConfigError(ca_key, shown, f"must hold the authority behind the certificate of {at} ({said})")


def alert_of(error: BaseException) -> str | None:
    """The other side's complaint about our side of a handshake, in OpenSSL's words; None where it made none."""
    for one in _behind(error):
        if isinstance(one, ssl.SSLError) and "ALERT" in str(one):
            return str(one).partition("]")[0].removeprefix("[SSL: ").lower().replace("_", " ")
    return None


def _behind(error: BaseException) -> Iterator[BaseException]:
    """The error and everything it came from, also where a library passes it on as ``reason`` or argument."""
    waiting, seen = [error], set[int]()
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        causes = (one.__cause__, one.__context__, getattr(one, "reason", None), *one.args)
        waiting += [cause for cause in causes if isinstance(cause, BaseException)]
