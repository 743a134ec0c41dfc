"""The section ``proxy``: addresses, sources of tenants, and limits that fit one another."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from runtime.proxy_config import ProxyConfig, UpstreamConfig


@pytest.mark.parametrize(
    ("url", "kept"),
    [
        ("http://e:8000", "http://e:8000"),
        ("https://e/v1/", "https://e"),
        ("http://[::1]:8000/base/v1", "http://[::1]:8000/base"),
    ],
)
def test_a_base_url_of_a_client_is_an_upstream(url: str, kept: str) -> None:
    """Its /v1 is left out: clients ask with it."""
    assert UpstreamConfig(url=url).url == kept


@pytest.mark.parametrize(
    "url",
    [
        "e:8000",
        "ftp://e",
        "http://",
        "http://e:0",
        "http://e:99999",
        "http://vllm..svc:8000",
        "http://u:p@e",
        "http://e/?a=b",
        "http://e/\r\nX: y",
    ],
)
def test_other_urls_are_refused(url: str) -> None:
    """Above all those that would write a header of their own."""
    with pytest.raises(ValidationError):
        UpstreamConfig(url=url)


@pytest.mark.parametrize("source", ["api_key", "header:X-Org", "unverified_jwt:org", "unverified_jwt:a.b/c", "none"])
def test_sources_of_tenants(source: str) -> None:
    """What a claim or a header is called is free."""
    assert ProxyConfig(tenant_from=source).tenant_from == source


@pytest.mark.parametrize(
    "wrong",
    [
        {"tenant_from": "jwt:org"},
        {"tenant_from": "header:"},
        {"tenant_from": "header:a b"},
        {"body_bytes_max": 2_000, "bodies_bytes_max": 1_999},
        {"upstream_quiet_s": 10, "total_s": 9},
        {"header_s": 0},
        {"port": 70_000},
        {"weight": 1},
        {"tenant_secret": ""},
        {"tenant_secret": "fifteen-letters"},
        {"workers": 3, "tenant_open_requests_max": 2},
        {"workers": 3, "address_open_requests_max": 1},
        {"workers": 2, "address_connections_max": 1},
    ],
    ids=str,
)
def test_what_does_not_fit_is_refused(wrong: dict[str, Any]) -> None:
    """Claims that are not verified must be called so; limits must leave room for one another."""
    with pytest.raises(ValidationError):
        ProxyConfig(**wrong)


@pytest.mark.parametrize("workers", [1, 2, 3, 64])
def test_the_parts_of_all_workers_are_never_more_than_the_quota(workers: int) -> None:
    """And as much as whole numbers allow; what keeps a process well is each worker's own."""
    counts = {"tenant_open_requests_max": 100, "address_connections_max": 64, "address_open_requests_max": 0}
    rates = {"tenant_requests_per_s": 10.0, "address_requests_per_s": 0.0}
    whole = ProxyConfig(workers=workers, **counts, **rates)  # type: ignore[arg-type]
    part = whole.of_one_worker()

    for name, most in counts.items():
        assert most - workers < workers * getattr(part, name) <= most, name
    for name, per_s in rates.items():
        assert workers * getattr(part, name) == pytest.approx(per_s), name
    assert part.model_dump(exclude={*counts, *rates}) == whole.model_dump(exclude={*counts, *rates})


def test_the_secret_is_in_no_text() -> None:
    """Neither in the section's repr nor in its dump as JSON."""
    config = ProxyConfig(tenant_secret="hush-hush-hush-hush")  # type: ignore[arg-type]  # as read from a file

    assert "hush" not in repr(config) + config.model_dump_json()
