"""The alert contract: round trip, canonical bytes, tolerance."""

from __future__ import annotations

import orjson
import pytest

from schemas.contract.alerts import Alert, Member, decode, encode
from schemas.errors import RejectedError

ALERT = Alert(
    fingerprint="00112233445566ff",
    transition="updated",
    number=2,
    rule="gpu-temperature",
    severity="critical",
    summary="h-1 is hot",
    advice="look at the fans",
    labels={"host": "h-1", "gpu_uuid": "GPU-1"},
    opened_ms=1_000,
    since_ms=500,
    at_ms=2_000,
    value=91.5,
    members=(Member("ttft-slow", "warning", {"model": "m"}, 600, None, 1.5, "slow"),),
    evidence={"gpu": {"temperature_c": 91}},
)


def test_an_alert_comes_back_as_it_was() -> None:
    assert decode(encode(ALERT)) == ALERT


def test_equal_alerts_give_equal_bytes_whatever_the_order_of_their_labels() -> None:
    turned = decode(encode(ALERT))
    other = Alert(**{**_fields(turned), "labels": {"gpu_uuid": "GPU-1", "host": "h-1"}})

    assert encode(other) == encode(ALERT)


def test_fields_of_later_releases_are_left_out() -> None:
    found = orjson.loads(encode(ALERT)) | {"colour": "red"}
    found["members"][0]["mood"] = "bad"

    assert decode(orjson.dumps(found)) == ALERT


def test_the_transition_id_is_part_of_the_record() -> None:
    assert orjson.loads(encode(ALERT))["transition_id"] == "00112233445566ff-1000-2"


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b"7", b"{}", b'{"members":[7]}', encode(ALERT).replace(b'"updated"', b'"shouted"')]
)
def test_what_is_no_alert_is_told(data: bytes) -> None:
    with pytest.raises(RejectedError):
        decode(data)


def _fields(alert: Alert) -> dict[str, object]:
    return {name: getattr(alert, name) for name in Alert.__slots__}
