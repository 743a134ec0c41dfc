from __future__ import annotations

from typing import Any

import orjson
import pytest

from producers.requests.request_meta import APIS, FORM_END_BYTES, OTHER, ClientFields, client_fields
from schemas.events import event_types as events


def test_apis_of_paths_are_those_of_the_schema() -> None:
    """And ``other`` is for the rest."""
    assert {*APIS.values(), OTHER} == set(events.APIS)


@pytest.mark.parametrize(
    ("api", "body", "wanted"),
    [
        pytest.param("chat", {"model": "m"}, ClientFields("m", False, 1, False), id="one answer by default"),
        pytest.param(
            "chat",
            {"model": "m", "stream": True, "n": 3, "stream_options": {"include_usage": True}},
            ClientFields("m", True, 3, True),
            id="every field sent",
        ),
        pytest.param("chat", {"model": 7, "stream": "yes", "n": True}, ClientFields(None, False, 1), id="wrong types"),
        pytest.param("chat", {"n": 0, "stream_options": []}, ClientFields(None, False, 1), id="n of zero"),
        pytest.param(
            "completions",
            {"prompt": ["a", "b"], "n": 2},
            ClientFields(None, False, 4, prompts=2),
            id="n for each prompt",
        ),
        pytest.param(
            "completions",
            {"prompt": [[1, 2], [3]]},
            ClientFields(None, False, 2, prompts=2),
            id="prompts as tokens",
        ),
        pytest.param("completions", {"prompt": [1, 2, 3]}, ClientFields(None, False, 1), id="one prompt as tokens"),
        pytest.param("completions", {"prompt": []}, ClientFields(None, False, 1), id="no prompt"),
        pytest.param("responses", {"model": "m", "n": 5}, ClientFields("m", False, 1), id="responses know no n"),
        pytest.param("embeddings", {"model": "e", "input": ["a"]}, ClientFields("e"), id="embeddings have no choices"),
    ],
)
def test_what_a_body_asks_for(api: str, body: dict[str, Any], wanted: ClientFields) -> None:
    """Model, stream, number of answers and usage; what does not fit is as if it were absent."""
    assert client_fields(api, orjson.dumps(body)) == wanted


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"7", b"\xff"])
def test_a_body_that_is_no_object_is_unreadable(body: bytes) -> None:
    """Nothing is known of it but that."""
    assert client_fields("chat", body) == ClientFields(readable=False)


@pytest.mark.parametrize("piece", [b"[],", b"{},", b"0,", b'"a":1,'], ids=["lists", "objects", "numbers", "pairs"])
def test_a_body_of_millions_of_items_is_not_read(piece: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """It costs counting alone, not what each item would take in memory."""
    most = b'{"model":"m","x":[' + piece * (8 * 1024 * 1024 // len(piece)) + b"0]}"
    monkeypatch.delattr(orjson, "loads")

    assert client_fields("chat", most) == ClientFields(readable=False)


def test_a_long_text_is_read() -> None:
    """An image of 16 MiB in a message."""
    body = b'{"model":"m","messages":[{"content":"' + b"iVBORw0K" * (2 * 1024 * 1024) + b'"}]}'

    assert client_fields("chat", body).model == "m"


def test_the_model_of_a_form_is_read() -> None:
    """As audio is sent."""
    body = b'--x\r\nContent-Disposition: form-data; name="model"\r\n\r\nwhisper-1\r\n--x--\r\n'

    assert client_fields("audio", body) == ClientFields(model="whisper-1")
    assert client_fields("audio", b"--x\r\n").readable is False


MODEL_FIELD = b'Content-Disposition: form-data; name="model"\r\n\r\nwhisper-1\r\n--x'
FILE = b'Content-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n' + b"RIFF" * FORM_END_BYTES + b"\r\n--x"


@pytest.mark.parametrize(
    ("parts", "model"),
    [
        pytest.param((MODEL_FIELD, FILE), "whisper-1", id="before the file"),
        pytest.param((FILE, MODEL_FIELD), "whisper-1", id="after the file"),
        pytest.param((FILE, MODEL_FIELD, FILE), None, id="between files"),
    ],
)
def test_a_long_form_is_searched_at_its_ends(parts: tuple[bytes, ...], model: str | None) -> None:
    """All of it would cost time in which no other request goes on."""
    found = client_fields("audio", b"\r\n".join((b"--x", *parts)) + b"--\r\n")

    assert (found.model, found.readable) == (model, model is not None)
