from __future__ import annotations

from typing import Any

import orjson
import pytest

from producers.requests.asking import APIS, OTHER, Wanted, api_of, wanted_of
from schemas import events


@pytest.mark.parametrize(
    ("path", "api"),
    [
        ("/v1/chat/completions", "chat"),
        ("/v1/completions", "completions"),
        ("/v1/embeddings", "embeddings"),
        ("/v1/responses", "responses"),
        ("/openai/deployments/m/chat/completions?api-version=1", "chat"),
        ("/v1/completions/", "completions"),
        ("/v1/models", "other"),
        ("/v1/responses/resp_1", "other"),
        ("", "other"),
    ],
)
def test_the_api_is_how_the_path_ends(path: str, api: str) -> None:
    """Prefixes, queries and a final slash are of no matter."""
    assert api_of(path) == api
    assert {*APIS.values(), OTHER} == set(events.APIS)


@pytest.mark.parametrize(
    ("api", "body", "wanted"),
    [
        pytest.param("chat", {"model": "m"}, Wanted("m", False, 1, False), id="one answer unless asked otherwise"),
        pytest.param(
            "chat",
            {"model": "m", "stream": True, "n": 3, "stream_options": {"include_usage": True}},
            Wanted("m", True, 3, True),
            id="everything asked",
        ),
        pytest.param("chat", {"model": 7, "stream": "yes", "n": True}, Wanted(None, False, 1), id="wrong types"),
        pytest.param("chat", {"n": 0, "stream_options": []}, Wanted(None, False, 1), id="n of zero"),
        pytest.param("completions", {"prompt": ["a", "b"], "n": 2}, Wanted(None, False, 4), id="n for each prompt"),
        pytest.param("completions", {"prompt": [[1, 2], [3]]}, Wanted(None, False, 2), id="prompts as tokens"),
        pytest.param("completions", {"prompt": [1, 2, 3]}, Wanted(None, False, 1), id="one prompt as tokens"),
        pytest.param("completions", {"prompt": []}, Wanted(None, False, 1), id="no prompt"),
        pytest.param("responses", {"model": "m", "n": 5}, Wanted("m", False, 1), id="responses know no n"),
        pytest.param("embeddings", {"model": "e", "input": ["a"]}, Wanted("e"), id="embeddings have no choices"),
    ],
)
def test_what_a_body_asks_for(api: str, body: dict[str, Any], wanted: Wanted) -> None:
    """Model, stream, number of answers and usage; what does not fit is as if it were absent."""
    assert wanted_of(api, orjson.dumps(body)) == wanted


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"7", b"\xff"])
def test_a_body_that_is_no_object_is_unreadable(body: bytes) -> None:
    """Nothing is known of it but that."""
    assert wanted_of("chat", body) == Wanted(readable=False)
