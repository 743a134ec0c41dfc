"""Names that no engine confirmed open no series, and are not lost."""

from __future__ import annotations

from typing import Any

import pytest

from producers.proxy.models import CONFIRMED_MAX, ConfirmedModels
from producers.requests.tracker import MODEL_UNKNOWN


def judged(models: ConfirmedModels, model: str, status: int | None) -> tuple[Any, Any]:
    row: dict[str, Any] = {"model": model, "http_status": status}
    models.judge(row)
    return row["model"], row.get("model_sent")


@pytest.mark.parametrize("status", [400, 404, 422])
def test_an_invented_name_is_unknown(status: int) -> None:
    """An engine that rejects the request confirms nothing; the name stays for the log of requests."""
    assert judged(ConfirmedModels(), "invented", status) == (MODEL_UNKNOWN, "invented")


def test_a_confirmed_name_stays_whatever_comes_later() -> None:
    """A bad request for a model that was answered before is one of that model."""
    models = ConfirmedModels()

    assert judged(models, "m", 200) == ("m", None)
    assert judged(models, "m", 400) == ("m", None)
    assert judged(models, "n", 400) == (MODEL_UNKNOWN, "n")


@pytest.mark.parametrize("status", [None, 429, 499, 500, 502, 503, 504])
def test_other_ends_say_nothing_of_the_name(status: int | None) -> None:
    """An engine that is down, or full, may well have the model; that confirms it no more than it denies it."""
    models = ConfirmedModels()

    assert judged(models, "m", status) == ("m", None)
    assert judged(models, "m", 404) == (MODEL_UNKNOWN, "m")


def test_a_request_that_named_no_model_is_unknown_without_a_name() -> None:
    """Nothing was sent, so nothing is kept."""
    assert judged(ConfirmedModels(), MODEL_UNKNOWN, 400) == (MODEL_UNKNOWN, None)


def test_names_are_bounded() -> None:
    """Those confirmed first stay; later ones are judged by their own answer alone."""
    models = ConfirmedModels()
    for number in range(CONFIRMED_MAX + 1):
        judged(models, f"m-{number}", 200)

    assert judged(models, f"m-{CONFIRMED_MAX - 1}", 404) == (f"m-{CONFIRMED_MAX - 1}", None)
    assert judged(models, f"m-{CONFIRMED_MAX}", 404) == (MODEL_UNKNOWN, f"m-{CONFIRMED_MAX}")
    assert judged(models, f"m-{CONFIRMED_MAX}", 200) == (f"m-{CONFIRMED_MAX}", None)
