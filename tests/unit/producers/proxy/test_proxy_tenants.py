"""Tenants from keys, headers and claims."""

from __future__ import annotations

import base64
import hashlib
import hmac

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from producers.proxy.tenants import api_key, claim_of, contradicts, of_key, tenant_headers, tenant_reader


def jwt(payload: object, signature: str = "c2ln") -> bytes:
    parts = [base64.urlsafe_b64encode(orjson.dumps(part)).rstrip(b"=") for part in ({"alg": "RS256"}, payload)]
    return b".".join([*parts, signature.encode()])


def bearer(token: bytes) -> dict[bytes, bytes]:
    return {b"authorization": b"Bearer " + token}


@pytest.mark.parametrize(
    ("headers", "key"),
    [
        (bearer(b"sk-1"), b"sk-1"),
        ({b"authorization": b"bearer  sk-1 "}, b"sk-1"),
        ({b"authorization": b"Bearer\tsk-1"}, b"sk-1"),
        ({b"api-key": b"a"}, b"a"),
        ({b"x-api-key": b"x"}, b"x"),
        ({b"authorization": b"Basic dTpw", b"x-api-key": b"x"}, b"x"),
        ({b"authorization": b"Bearer "}, None),
        ({}, None),
    ],
)
def test_where_a_key_stands(headers: dict[bytes, bytes], key: bytes | None) -> None:
    """A bearer token first, then the headers of Azure and Anthropic."""
    assert api_key(headers) == key


@pytest.mark.parametrize(
    ("headers", "differ"),
    [
        ({b"authorization": b"Bearer a", b"x-api-key": b"b"}, True),
        ({b"api-key": b"a", b"x-api-key": b"b"}, True),
        ({b"authorization": b"Bearer a", b"x-api-key": b"a", b"api-key": b"a"}, False),
        ({b"authorization": b"Basic dTpw", b"x-api-key": b"x"}, False),
        ({b"authorization": b"Bearer a"}, False),
        ({}, False),
    ],
)
def test_keys_that_differ_contradict_each_other(headers: dict[bytes, bytes], differ: bool) -> None:
    """An engine might go by the one and the tenant by the other; the same key twice is one."""
    assert contradicts(headers) is differ


def test_a_key_becomes_a_keyed_hash() -> None:
    """HMAC-SHA256, so that keys cannot be tried out without the secret; another secret, another tenant."""
    expected = hmac.new(b"secret", b"sk-1", hashlib.sha256).hexdigest()[:16]

    assert of_key(b"sk-1", b"secret") == f"key-{expected}"
    assert of_key(b"sk-1", b"other") != of_key(b"sk-1", b"secret")
    assert of_key(b"sk-1", b"secret") != "key-" + hashlib.sha256(b"sk-1").hexdigest()[:16]
    assert of_key(None, b"secret") is None


@pytest.mark.parametrize(
    ("payload", "tenant"),
    [
        ({"org": "acme"}, "acme"),
        ({"org": 42}, "42"),
        ({"org": True}, None),
        ({"org": ["a"]}, None),
        ({"org": ""}, None),
        ({"org": "a\nb"}, None),
        ({"org": "x" * 257}, None),
        ({"sub": "acme"}, None),
        (["org"], None),
    ],
)
def test_a_claim_is_read_without_its_signature(payload: object, tenant: str | None) -> None:
    """Whatever signs it; only texts and numbers that are names."""
    assert tenant_reader("unverified_jwt:org", b"")(bearer(jwt(payload, "forged"))) == tenant


@pytest.mark.parametrize("token", [b"", b"a.b", b"a.b.c.d", b"..", b"a.!!!!.c", b"a.e30.c" + b"x" * 20_000])
def test_what_is_no_token_has_no_tenant(token: bytes) -> None:
    """Never an error."""
    assert claim_of(token, "org") is None


@given(st.binary(max_size=200), st.sampled_from(["api_key", "header:X-Org", "unverified_jwt:sub", "none"]))
def test_any_header_gives_a_name_or_none(value: bytes, source: str) -> None:
    """A tenant is printable and short, whatever was sent, and never the key."""
    tenant = tenant_reader(source, b"s")({b"authorization": b"Bearer " + value, b"x-org": value})

    assert tenant is None or (tenant.isprintable() and 0 < len(tenant.encode()) <= 256)
    if source == "none":
        assert tenant is None


def test_a_header_is_taken_as_it_is() -> None:
    """In UTF-8; what is no name is unknown, never cut."""
    read = tenant_reader("header:X-Org", b"")

    assert read({b"x-org": "Zoë".encode()}) == "Zoë"
    assert read({b"x-org": b"\xff"}) is None
    assert read({}) is None


@pytest.mark.parametrize(
    ("source", "names"),
    [("api_key", set()), ("none", set()), ("header:X-Tenant", {b"x-tenant"}), ("unverified_jwt:org", set())],
)
def test_which_header_names_the_tenant(source: str, names: set[bytes]) -> None:
    """In lower case."""
    assert tenant_headers(source) == names
