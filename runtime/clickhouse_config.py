"""How to reach ClickHouse, and how it runs: one server, replicas, shards."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, model_validator

from runtime.addresses import http_address
from runtime.config_keys import Section, http_url
from runtime.local_stack import DATABASE
from runtime.tls import ssl_context
from schemas.errors import ConfigError

_INSTEAD = ": set user and password"


class ClickHouseConfig(Section):
    """How to reach ClickHouse over HTTP."""

    url: Annotated[str, http_url(instead=_INSTEAD)] = "http://127.0.0.1:8123"
    user: str = "default"
    password: SecretStr = SecretStr("")
    database: str = Field(default=DATABASE, pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,63}$")
    ca_file: Path | None = None
    """PEM file of the authorities that may vouch for an https:// server. None: the system's. TLS is always verified."""
    client_cert_file: Path | None = None
    """PEM file of our own certificate, where the server asks for one; without a password it alone proves who ``user``
    is. None: no certificate."""
    client_key_file: Path | None = None
    """PEM file of its key. None: the key is in ``client_cert_file``."""
    cluster: str = Field(default="", pattern=r"^([A-Za-z_][\w.-]{0,63})?$")
    """Name in ``remote_servers`` of the cluster whose shards hold the rows. Empty: one server, its replicas, or
    ClickHouse Cloud."""
    engine_prefix: Literal["", "Replicated"] = ""
    """``Replicated`` where a server has replicas and the database is of engine Replicated. Empty elsewhere, and on
    ClickHouse Cloud."""

    @model_validator(mode="after")
    def _files(self) -> Self:
        if self.client_key_file is not None and self.client_cert_file is None:
            raise ValueError("client_key_file needs client_cert_file")
        return self

    def ssl_context(self) -> ssl.SSLContext | bool:
        """What a client of HTTP verifies the server by, and shows it; True where the server speaks no TLS. Raises
        ConfigError for a file that cannot be read."""
        if not self.url.startswith("https:"):
            return True
        files = (self.ca_file, self.client_cert_file, self.client_key_file)
        return ssl_context("clickhouse.*_file", files)

    @property
    def _by_certificate(self) -> bool:
        """Whether our certificate is all that proves who we are."""
        return self.client_cert_file is not None and self.url.startswith("https:") and not self._secret

    @property
    def _secret(self) -> str:
        return self.password.get_secret_value()

    def login_headers(self) -> dict[str, str]:
        """Headers by which a client of HTTP logs in, as that of ``client_settings`` does."""
        proof = (
            {"X-ClickHouse-SSL-Certificate-Auth": "on"} if self._by_certificate else {"X-ClickHouse-Key": self._secret}
        )
        return {"X-ClickHouse-User": self.user, **proof}

    def at(self, url: str) -> ClickHouseConfig:
        """The same login at another server. Raises ConfigError for an address that is none."""
        try:
            return self.model_copy(update={"url": http_address(url, instead=_INSTEAD)})
        except ValueError as error:
            raise ConfigError("--clickhouse", url, str(error)) from None

    def client_settings(self) -> dict[str, Any]:
        """Keyword arguments for ``clickhouse_connect.get_client``. Raises ConfigError where no address is known."""
        self.demand_set("clickhouse.url")
        parts = urlsplit(self.url)
        secure = parts.scheme == "https"
        files = {"ca_cert": self.ca_file, "client_cert": self.client_cert_file, "client_cert_key": self.client_key_file}
        given = {name: str(path) for name, path in files.items() if path is not None} if secure else {}
        if "client_cert" in given:  # strict: with user and password, as a login without a certificate
            given["tls_mode"] = "mutual" if self._by_certificate else "strict"
        return {
            **given,
            "host": parts.hostname,
            "port": parts.port or (8443 if secure else 8123),
            "secure": secure,
            "username": self.user,
            "password": self._secret,
            "database": self.database,
        }
