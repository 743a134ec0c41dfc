"""Certificates that are renewed, and what is said of one that does not hold."""

from __future__ import annotations

import contextlib
import ssl
from pathlib import Path
from typing import Any

import pytest

from lab.drills.certificates import HOST, Authority
from runtime.tls import alert_of, ssl_context, untrusted
from schemas.errors import CertificateExpiredError, ConfigError

AT = "broker:9093"
CA = Path("/etc/ca.pem")


def refused(code: int, said: str) -> ssl.SSLCertVerificationError:
    """As OpenSSL raises it."""
    error = ssl.SSLCertVerificationError(1, f"[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: {said}")
    error.verify_code, error.verify_message = code, said
    return error


@pytest.mark.parametrize(
    ("code", "ca_file", "kind", "says"),
    [
        pytest.param(
            20, CA, ConfigError, "k.ca = '/etc/ca.pem': must hold the authority behind", id="another authority"
        ),
        pytest.param(
            19, None, ConfigError, 'k.ca = "the system\'s authorities": must hold', id="not one of the system's"
        ),
        pytest.param(62, CA, ConfigError, "k.at = 'broker:9093': must be a name that", id="another host name"),
        pytest.param(64, CA, ConfigError, "k.at = 'broker:9093': must be a name that", id="another address"),
        pytest.param(10, CA, CertificateExpiredError, "broker:9093 shows a certificate out of its time", id="expired"),
        pytest.param(9, CA, CertificateExpiredError, "broker:9093 shows a certificate out of its", id="not yet valid"),
    ],
)
def test_a_certificate_that_does_not_hold_names_the_setting(
    code: int, ca_file: Path | None, kind: type[Exception], says: str
) -> None:
    """What is ours to mend is a setting; a certificate out of its time is the server's affair."""
    found = untrusted(refused(code, "so it is"), "k.at", AT, "k.ca", ca_file)

    assert type(found) is kind
    assert says in str(found)
    assert "(so it is)" in str(found)


def test_the_cause_is_found_behind_what_libraries_raise() -> None:
    """As cause, as context, as argument or as ``reason``, however deep; a circle of errors has an end."""
    inner = refused(20, "x")
    as_argument = RuntimeError("pool", inner)
    as_reason = OSError("retries")
    as_reason.reason = inner  # type: ignore[attr-defined]
    as_cause = OSError("outer")
    as_cause.__cause__ = RuntimeError("middle")
    as_cause.__cause__.__context__ = inner
    circle = OSError("a")
    circle.__cause__ = OSError("b")
    circle.__cause__.__cause__ = circle

    found = [untrusted(one, "k.at", AT, "k.ca", CA) for one in (as_argument, as_reason, as_cause)]

    assert [type(one) for one in found] == [ConfigError] * 3
    assert untrusted(circle, "k.at", AT, "k.ca", CA) is None


def test_another_error_is_not_about_certificates() -> None:
    """Neither a refused connection nor a handshake that broke off."""
    assert untrusted(ConnectionRefusedError(111, "refused"), "k.at", AT, "k.ca", CA) is None
    assert untrusted(ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER] wrong"), "k.at", AT, "k.ca", CA) is None


def test_an_alert_of_the_other_side_is_told_in_its_words() -> None:
    """Only an alert is."""
    alert = ssl.SSLError(1, "[SSL: TLSV13_ALERT_CERTIFICATE_REQUIRED] tlsv13 alert certificate required (_ssl.c:2580)")
    closed = RuntimeError("closed")
    closed.__cause__ = alert

    assert alert_of(closed) == "tlsv13 alert certificate required"
    assert alert_of(ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER] wrong version number")) is None


def shown(client: ssl.SSLContext, authority: Authority) -> str | None:
    """The name in the certificate that a server which asks for one is shown; None without one."""
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=authority.certificate)
    server.verify_mode = ssl.CERT_OPTIONAL
    server.load_cert_chain(authority.issue("server", host=HOST))
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname=HOST),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    for end in ends * 3:
        with contextlib.suppress(ssl.SSLWantReadError):
            end.do_handshake()
    certificate: Any = ends[1].getpeercert()
    return str(dict(one[0] for one in certificate["subject"])["commonName"]) if certificate else None


def test_a_certificate_that_is_renewed_is_shown_from_the_next_connection_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Until its files can be read the one before is."""
    authority = Authority(tmp_path / "ca")
    certificate = authority.issue("first")
    client = ssl_context("k", (authority.certificate, certificate, None))
    seen = [shown(client, authority)]

    authority.issue("second").replace(certificate)
    seen.append(shown(client, authority))
    assert caplog.records == []

    certificate.write_text("half of a file")
    seen.append(shown(client, authority))
    certificate.unlink()
    seen.append(shown(client, authority))
    said = [record.getMessage() for record in caplog.records]
    authority.issue("third").replace(certificate)
    seen.append(shown(client, authority))

    assert seen == ["first", "second", "second", "second", "third"]
    assert said == ["changed certificate files cannot be read; those before are used"] * 2


def test_a_new_key_is_not_used_with_the_certificate_before(tmp_path: Path) -> None:
    """They are written one after the other: the old pair is used until both are there."""
    authority = Authority(tmp_path / "ca")
    authority.issue("first")
    certificate, key = tmp_path / "ca" / "first.crt", tmp_path / "ca" / "first.key"
    client = ssl_context("k", (authority.certificate, certificate, key))
    authority.issue("second")

    (tmp_path / "ca" / "second.key").replace(key)
    between = shown(client, authority)
    (tmp_path / "ca" / "second.crt").replace(certificate)

    assert (between, shown(client, authority)) == ("first", "second")


def test_a_new_authority_is_trusted_from_the_next_connection_on(tmp_path: Path) -> None:
    """Its file held another when the process started."""
    before, after = Authority(tmp_path / "before"), Authority(tmp_path / "after")
    file = tmp_path / "ca.crt"
    file.write_bytes(before.certificate.read_bytes())
    client = ssl_context("k", (file, None, None))
    with pytest.raises(ssl.SSLCertVerificationError):
        shown(client, after)

    file.write_bytes(after.certificate.read_bytes())

    assert shown(client, after) is None


def test_a_client_that_is_made_while_a_file_is_gone_goes_on_with_what_was_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As one that runs does, with the same word; once the file is there again it is read."""
    before, after = Authority(tmp_path / "before"), Authority(tmp_path / "after")
    file = tmp_path / "ca.crt"
    file.write_bytes(before.certificate.read_bytes())
    ssl_context("k", (file, None, None))
    file.unlink()

    assert shown(ssl_context("k", (file, None, None)), before) is None
    assert [record.getMessage() for record in caplog.records] == [
        "changed certificate files cannot be read; those before are used"
    ]
    file.write_bytes(after.certificate.read_bytes())
    assert shown(ssl_context("k", (file, None, None)), after) is None


def test_a_context_is_as_strict_as_the_default(tmp_path: Path) -> None:
    """Whatever this Python's default is."""
    mine, default = ssl_context("k", (None, None, None)), ssl.create_default_context()

    for name in ("protocol", "verify_mode", "check_hostname", "verify_flags", "options", "minimum_version"):
        assert getattr(mine, name) == getattr(default, name)
    assert mine.cert_store_stats() == default.cert_store_stats()
