"""TLS of clients: their context, and failed handshakes in a sentence that names the setting to change."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path

from pydantic import SecretStr

from schemas.errors import CertificateExpiredError, ConfigError, FleetpulseError

OUT_OF_TIME = "shows a certificate out of its time"
_OUT_OF_TIME = (9, 10)
_OTHER_NAME = (62, 64)
# Numbers of X509_verify_cert: https://docs.openssl.org/3.0/man3/X509_STORE_CTX_get_error/ (not yet valid, expired; host
# name, IP address).


def ssl_context(
    key: str, files: tuple[Path | None, Path | None, Path | None], key_password: SecretStr | None = None
) -> ssl.SSLContext:
    """A client's context by the files of authorities, certificate and its key, which are settings at ``key``. Raises
    ConfigError for a file that cannot be read."""
    authorities, certificate, private = files
    password = key_password.get_secret_value() if key_password else ""  # None would ask at the terminal
    try:
        context = ssl.create_default_context(cafile=authorities)
        if certificate is not None:
            context.load_cert_chain(certificate, private, password)
    except OSError as error:
        shown = ", ".join(str(file) for file in files if file is not None)
        bound = f"must be readable PEM files, the key without a password or with its own ({error})"
        raise ConfigError(key, shown, bound) from error
    return context


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
