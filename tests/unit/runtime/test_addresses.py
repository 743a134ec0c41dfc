"""Addresses of HTTP servers."""

from __future__ import annotations

import pytest

from runtime.addresses import (
    address_of,
    engine_id_of,
    http_address,
    is_loopback,
    is_this_machine,
    is_wildcard,
    says_this_machine,
)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("http://127.0.0.1:8123", "http://127.0.0.1:8123"),
        ("https://[::1]:8443/", "https://[::1]:8443"),
        ("https://host/a/b/", "https://host/a/b"),
    ],
)
def test_an_address_ends_without_a_slash(text: str, address: str) -> None:
    assert http_address(text) == address


@pytest.mark.parametrize(
    "text", ["", "host:8123", "ftp://host", "http://", "http://host:0", "http://host:x", "http://["]
)
def test_what_is_no_address_is_refused_with_its_form(text: str) -> None:
    with pytest.raises(ValueError, match=r"^must be http://host:port/p or https://host:port/p$"):
        http_address(text, path="/p")


@pytest.mark.parametrize("host", ["vllm..svc", ".svc", "a" * 64, "a" * 64 + ".svc"])
def test_a_host_that_no_resolver_takes_is_no_address(host: str) -> None:
    """Looking it up raises an error of its encoding, which is none of the network."""
    with pytest.raises(ValueError, match=r"^must be http://host:port or https://host:port$"):
        http_address(f"http://{host}:8000")


@pytest.mark.parametrize("host", ["vllm.svc.", "a" * 63 + ".svc", "my_vllm", "b\u00fccher.example", "[fe80::1%eth0]"])
def test_a_host_that_resolvers_take_is_an_address(host: str) -> None:
    """Whatever its letters."""
    assert http_address(f"http://{host}:8000") == f"http://{host}:8000"


@pytest.mark.parametrize("text", ["http://u@host", "http://:p@host", "http://u:p@host"])
def test_credentials_have_another_place(text: str) -> None:
    """The sentence does not repeat them."""
    with pytest.raises(ValueError, match=r"^must not hold credentials: set user$"):
        http_address(text, instead=": set user")


@pytest.mark.parametrize(
    ("url", "engine_id"),
    [
        ("http://127.0.0.1:8000/metrics", "h-1:8000"),
        ("http://127.8.9.1:8000", "h-1:8000"),
        ("http://localhost", "h-1:80"),
        ("http://LOCALHOST:8000", "h-1:8000"),
        ("https://[::1]/", "h-1:443"),
        ("http://[::ffff:127.0.0.1]:8000", "h-1:8000"),
        ("http://0.0.0.0:8000", "h-1:8000"),
        ("http://[::]:8000", "h-1:8000"),
        ("http://10.0.0.7:8000", "10.0.0.7:8000"),
        ("http://128.0.0.1:8000", "128.0.0.1:8000"),
        ("https://engine/base", "engine:443"),
        ("http://localhost.example:8000", "localhost.example:8000"),
        ("http://[fd00::7]:8000/metrics", "[fd00::7]:8000"),
    ],
)
def test_an_engine_is_named_by_host_and_port(url: str, engine_id: str) -> None:
    """Unique in the deployment, which an address of the machine's own is not."""
    assert engine_id_of(url, "h-1") == engine_id


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("http://engine:8000/v1", "engine:8000"),
        ("https://10.0.0.7", "10.0.0.7:443"),
        ("http://e", "e:80"),
        ("http://[fd00::7]:1/x", "[fd00::7]:1"),
    ],
)
def test_the_address_in_a_url(url: str, address: str) -> None:
    """With the scheme's port where it has none; IPv6 in brackets."""
    assert address_of(url) == address


def test_what_listens_on_loopback_is_reached_from_this_machine_alone() -> None:
    """The wildcard is this machine's too, and everybody's."""
    names = ["127.0.0.1", "::1", "localhost", "0.0.0.0", "::", "10.0.0.7", "host"]

    assert [is_loopback(name) for name in names] == [True, True, True, False, False, False, False]


@pytest.mark.parametrize("name", ["0.0.0.0", "::", "::0", "0::0", "0:0:0:0:0:0:0:0", "::0.0.0.0", "::ffff:0.0.0.0"])
def test_the_wildcard_is_no_loopback_however_it_is_written(name: str) -> None:
    """What listens there without a login would be everybody's."""
    assert (is_loopback(name), is_wildcard(name), is_this_machine(name)) == (False, True, True)


@pytest.mark.parametrize("name", ["127.0.0.1", "127.8.9.1", "::1", "0:0:0:0:0:0:0:1", "::ffff:127.0.0.1", "localhost"])
def test_loopback_is_no_wildcard(name: str) -> None:
    """Only this machine reaches it."""
    assert (is_loopback(name), is_wildcard(name), is_this_machine(name)) == (True, False, True)


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("127.0.0.1:8000", True),
        ("LocalHost:8000", True),
        ("[::1]:8000", True),
        ("0.0.0.0:8000", True),
        ("10.0.0.7:8000", False),
        ("h-1:8000", False),
        ("an engine's id", False),
    ],
)
def test_an_address_that_means_the_machine_of_whoever_says_it(address: str, says: bool) -> None:
    """Loopback and the wildcard; other names mean the same everywhere."""
    assert says_this_machine(address) == says
