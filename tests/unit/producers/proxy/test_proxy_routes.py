"""Which requests are passed on, and what they are counted as: a path means the same here and at the engine."""

from __future__ import annotations

from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from producers.proxy.routes import Routed, Routes, read_path, response_read, without_slash
from producers.proxy.wire import Head
from producers.requests.request_meta import OTHER
from schemas.events.event_types import APIS

KNOWN = Routes()


@pytest.mark.parametrize(
    ("path", "api"),
    [
        ("/v1/chat/completions", "chat"),
        ("/v1/chat/completions/", "chat"),
        ("/v1/completions", "completions"),
        ("/v1/embeddings", "embeddings"),
        ("/v1/responses", "responses"),
        ("/openai/v1/responses", "responses"),
        ("/chat/completions", "chat"),
        ("/v1/messages", "messages"),
        ("/anthropic/v1/messages", "messages"),
        ("/v1/messages/count_tokens", OTHER),
        ("/rerank", "rerank"),
        ("/v2/rerank", "rerank"),
        ("/score", "score"),
        ("/v1/audio/transcriptions", "audio"),
        ("/v1/audio/speech", "audio"),
        ("/v1/images/generations", "images"),
        ("/v1/moderations", OTHER),
    ],
)
def test_every_api_that_is_passed_on_is_counted(path: str, api: str) -> None:
    """By its name, or as ``other``; below any prefix that ends in /v1, or none."""
    assert KNOWN.of(b"POST", path) == Routed(api)
    assert api in APIS


@pytest.mark.parametrize(
    ("method", "path"),
    [
        (b"GET", "/v1/models"),
        (b"HEAD", "/v1/models/meta-llama/Llama-3.1-8B"),
        (b"GET", "/health"),
        (b"GET", "/v1/responses/resp_1"),
        (b"GET", "/v1/responses/resp_1/input_items"),
        (b"GET", "/responses/resp_1"),
        (b"DELETE", "/v1/responses/resp_1"),
        (b"DELETE", "/responses/resp_1"),
        (b"POST", "/v1/responses/resp_1/cancel"),
        (b"POST", "/responses/resp_1/cancel"),
        (b"OPTIONS", "/v1/chat/completions"),
    ],
)
def test_what_runs_no_model_passes_without_an_event(method: bytes, path: str) -> None:
    """Models, health, and responses that an engine keeps."""
    assert KNOWN.of(method, path) == Routed(None)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        (b"POST", "/v1/load_lora_adapter"),
        (b"POST", "/sleep"),
        (b"POST", "/flush_cache"),
        (b"POST", "/update_weights_from_disk"),
        (b"GET", "/metrics"),
        (b"GET", "/v1/chat/completions"),
        (b"POST", "/tokenize"),
        (b"POST", "/other/chat/completions"),
        (b"POST", "/v1"),
        (b"POST", "/v1/chat/completions?a"),
        (b"PUT", "/v1/models"),
        (b"DELETE", "/v1/models/m"),
        (b"DELETE", "/v1/responses/resp_1/input_items"),
        (b"GET", "/v1/responses/resp_1/cancel"),
        (b"GET", "/other/responses/resp_1"),
        (b"GET", "/"),
    ],
)
def test_what_is_not_listed_is_not_passed_on(method: bytes, path: str) -> None:
    """Paths that change or show an engine above all."""
    assert KNOWN.of(method, path) is None


@pytest.mark.parametrize(
    ("method", "path", "response_id"),
    [
        (b"GET", "/v1/responses/resp_1", "resp_1"),
        (b"GET", "/a/v1/responses/resp_1/", "resp_1"),
        (b"GET", "/responses/a.b", "a.b"),
        (b"POST", "/responses/resp_1/cancel", "resp_1"),
        (b"POST", "/v1/responses/resp_1", None),
        (b"GET", "/v1/responses/resp_1/input_items", None),
        (b"HEAD", "/v1/responses/resp_1", None),
        (b"DELETE", "/v1/responses/resp_1", None),
        (b"GET", "/v1/models/m", None),
    ],
)
def test_which_response_a_request_reads(method: bytes, path: str, response_id: str | None) -> None:
    """Its state is the answer; what passes through as such a request is the same."""
    assert response_read(method, path) == response_id


def test_what_is_listed_passes_and_is_counted() -> None:
    """Whole paths, what is below one, or everything."""
    some, everything = Routes(("/tokenize", "/admin/*")), Routes(("*",))

    assert some.of(b"POST", "/tokenize") == some.of(b"POST", "/admin/x/y") == Routed(OTHER)
    assert some.of(b"GET", "/admin/x") == Routed(None)
    assert some.of(b"POST", "/tokenize/x") is some.of(b"POST", "/adminx") is None
    assert everything.of(b"POST", "/anything") == Routed(OTHER)
    assert everything.of(b"POST", "/v1/chat/completions") == Routed("chat")


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (b"/v1/chat/completions/", b"/v1/chat/completions"),
        (b"/v1/moderations/?a=/", b"/v1/moderations?a=/"),
        (b"http://p/v1/responses/?", b"http://p/v1/responses?"),
        (b"/v1/chat/completions?a=/", b"/v1/chat/completions?a=/"),
        (b"/admin/", b"/admin/"),
        (b"/", b"/"),
    ],
)
def test_a_known_api_is_requested_without_a_slash_at_its_end(target: bytes, expected: bytes) -> None:
    """An engine would redirect its client round the proxy. Paths that are listed are the engine's own."""
    path = read_path(Head(target=target).path)

    assert path is not None
    assert without_slash(target, path) == expected


@pytest.mark.parametrize("path", [b"/v1/chat/complet%69ons", b"/%761/chat/completions", b"/v1/%63hat/completion%73"])
def test_a_path_is_read_as_an_engine_reads_it(path: bytes) -> None:
    """Escapes are resolved, once."""
    assert read_path(path) == "/v1/chat/completions"


@pytest.mark.parametrize(
    "path",
    [
        b"/v1/chat%2Fcompletions",
        b"/v1/chat%2fcompletions",
        b"/v1/chat%5Ccompletions",
        b"/v1/chat\\completions",
        b"//v1/chat/completions",
        b"/v1//chat/completions",
        b"/v1/./chat/completions",
        b"/v1/chat/completions/.",
        b"/v1/models/../chat/completions",
        b"/../secret",
        b"/..",
        b"/%2e%2e/secret",
        b"/.%2E/secret",
        b"/v1/chat/completions;a=b",
        b"/v1;x/chat/completions",
        b"/v1/chat/completions%3Ba",
        b"/v1/chat/completions%3Fa",
        b"/v1/chat/completions%23a",
        b"/v1/chat/complet%2569ons",
        b"/v1/chat/completions%00",
        b"/v1/chat/completions%0d%0a",
        b"/v1/chat/completions%7f",
        b"/v1/chat/complet%6",
        b"/v1/chat/complet%zzions",
        b"/v1/chat/complet%fions",
        b"/v1/chat/%ff",
    ],
)
def test_what_two_servers_could_read_differently_is_no_path(path: bytes) -> None:
    """So it is refused, and reaches no engine uncounted."""
    assert read_path(path) is None


@given(st.binary(max_size=60).map(lambda rest: b"/" + rest))
def test_a_path_that_is_read_needs_no_more_reading(path: bytes) -> None:
    """Nothing is left in it that another server could still resolve; it stays below where it began."""
    found = read_path(path)

    if found is not None:
        parts = found.split("/")
        assert not {".", ".."}.intersection(parts)
        assert "" not in parts[1:-1]
        assert not set(found).intersection("\\;\0\r\n")
        assert unquote(found) == found


@given(st.sampled_from([b"GET", b"POST", b"DELETE", b"OPTIONS", b"PATCH"]), st.text(max_size=60))
def test_any_path_has_one_outcome(method: bytes, path: str) -> None:
    """Refused, passed on, or counted by a name that an event may have."""
    found = KNOWN.of(method, "/" + path)

    assert found is None or found.api is None or found.api in APIS
