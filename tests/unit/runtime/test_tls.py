"""What is said of a certificate that does not hold."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from runtime.tls import alert_of, untrusted
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
