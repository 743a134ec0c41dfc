"""Look at certificates: those of files that the configuration names, and those that Kafka and ClickHouse show."""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from fleetpulse.doctor.facts import CertificateFacts
from runtime.config import ClickHouseConfig, Config
from schemas.errors import ConfigError


def look_at_certificates(config: Config, *, within_s: float) -> tuple[CertificateFacts, ...]:
    """Of each its end. What cannot be read, or is not shown, has findings of its own elsewhere."""
    return (*_of_files(config), *_of_servers(config, within_s))


def _of_files(config: Config) -> Iterator[CertificateFacts]:
    authorities, own = {"kafka.ssl_cafile": config.kafka.ssl_cafile}, {"kafka.ssl_certfile": config.kafka.ssl_certfile}
    for section, login in _logins(config):
        authorities[f"{section}.ca_file"], own[f"{section}.client_cert_file"] = login.ca_file, login.client_cert_file
    for files, end_of in ((authorities, _end_of_authorities), (own, _end_of_file)):
        for key, path in files.items():
            if path is not None and (ends_s := end_of(path)) is not None:
                yield CertificateFacts(key, str(path), ends_s)


def _end_of_authorities(path: Path) -> float | None:
    """Seconds since the epoch at which the last authority of a PEM file ends: any of them may be behind the certificate
    of a server, and the next one stands beside the one before it long before that ends."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(path)
    except OSError:
        return None
    ends_s = [ssl.cert_time_to_seconds(str(one["notAfter"])) for one in context.get_ca_certs()]
    return max(ends_s) if ends_s else _end_of_file(path)  # a server's own certificate is no authority


def _end_of_file(path: Path) -> float | None:
    """Seconds since the epoch at which the first certificate of a PEM file ends."""
    try:
        decoded = ssl._ssl._test_decode_cert(str(path))  # type: ignore[attr-defined]  # ssl has no other that reads a file
    except (OSError, ssl.SSLError):
        return None
    return ssl.cert_time_to_seconds(decoded["notAfter"])


def _of_servers(config: Config, within_s: float) -> Iterator[CertificateFacts]:
    if config.kafka.unset is None and config.kafka.security_protocol.endswith("SSL"):
        with contextlib.suppress(ConfigError):
            context = config.kafka.client_settings()["ssl_context"]
            for address in config.kafka.bootstrap.split(","):
                host, _, port = address.strip().rpartition(":")
                yield from _shown("kafka.bootstrap", host.strip("[]"), int(port), context, within_s)
    for section, login in _logins(config):
        url = urlsplit(login.url)
        if url.scheme == "https" and url.hostname is not None:
            with contextlib.suppress(ConfigError):
                context = login.ssl_context()
                if isinstance(context, bool):
                    context = ssl.create_default_context()
                yield from _shown(f"{section}.url", url.hostname, url.port or 443, context, within_s)


def _logins(config: Config) -> Iterator[tuple[str, ClickHouseConfig]]:
    if config.clickhouse.unset is None:
        yield "clickhouse", config.clickhouse
    if config.clickhouse_reader is not None:
        yield "clickhouse_reader", config.clickhouse_reader


def _shown(key: str, host: str, port: int, context: ssl.SSLContext, within_s: float) -> Iterator[CertificateFacts]:
    """The certificate that the server shows, where it is trusted."""
    try:
        with (
            socket.create_connection((host, port), timeout=within_s) as plain,
            context.wrap_socket(plain, server_hostname=host) as secured,
        ):
            shown = secured.getpeercert() or {}
    except OSError:
        return
    if isinstance(ends := shown.get("notAfter"), str):
        yield CertificateFacts(key, f"{host}:{port}", ssl.cert_time_to_seconds(ends))
