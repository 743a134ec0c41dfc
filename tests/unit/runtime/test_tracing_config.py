from __future__ import annotations

import pytest
from pydantic import ValidationError

from runtime.tracing_config import TracingConfig


def test_traces_are_off_by_default() -> None:
    """Nothing is traced unless somebody says where to; then one batch in a thousand."""
    config = TracingConfig()

    assert (config.endpoint, config.url, config.ratio) == (None, None, 0.001)


@pytest.mark.parametrize("endpoint", ["http://h:4318", "http://h:4318/", "http://h:4318/v1/traces"])
def test_spans_go_below_the_endpoint(endpoint: str) -> None:
    """With the path of OTLP, or without."""
    assert TracingConfig(endpoint=endpoint).url == "http://h:4318/v1/traces"


@pytest.mark.parametrize(
    "wrong",
    [
        {"endpoint": "jaeger:4318"},
        {"endpoint": "grpc://h:4317"},
        {"endpoint": "http://"},
        {"endpoint": "http://h:0"},
        {"endpoint": "http://h:99999"},
        {"endpoint": "http://user:secret@h:4318"},
        {"ratio": 0},
        {"ratio": 1.01},
        {"service_name": ""},
        {"queue_spans_max": 0},
        {"queue_spans_max": 10, "batch_spans_max": 11},
        {"sample": 1},
    ],
    ids=str,
)
def test_what_cannot_be_is_refused(wrong: dict[str, object]) -> None:
    """Bounds are checked when the process starts; credentials are not repeated."""
    with pytest.raises(ValidationError) as caught:
        TracingConfig.model_validate(wrong)

    assert "secret" not in str(caught.value)
