"""Certificates in files that the configuration names: which of several in one file says when it ends."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from fleetpulse.doctor.facts import CertificateFacts
from fleetpulse.doctor.look_certificates import look_at_certificates
from lab.drills.certificates import Authority
from runtime.config import ClickHouseConfig, Config, KafkaConfig

DAY_S = 86_400


def days_left(found: Iterable[CertificateFacts]) -> dict[str, int]:
    return {one.key: round((one.ends_s - time.time()) / DAY_S) for one in found}


@pytest.mark.parametrize("order", [(2, 30), (30, 2)], ids=["the next one behind", "the next one before"])
def test_a_file_of_authorities_ends_with_the_last_of_them(order: tuple[int, int], tmp_path: Path) -> None:
    """Any may be behind a server's certificate: the old one may end where the next one stands beside it."""
    file = tmp_path / "ca.pem"
    file.write_text("".join(Authority(tmp_path / str(days), days).certificate.read_text() for days in order))
    config = Config(data_dir=tmp_path, kafka=KafkaConfig(ssl_cafile=file), clickhouse=ClickHouseConfig(ca_file=file))

    found = look_at_certificates(config, within_s=1.0)

    assert days_left(found) == {"kafka.ssl_cafile": 30, "clickhouse.ca_file": 30}
    assert {one.place for one in found} == {str(file)}


def test_a_certificate_of_ours_ends_by_itself(tmp_path: Path) -> None:
    """It is the first of its file; the authorities behind it may end later."""
    authority = Authority(tmp_path / "authority")
    chain = authority.issue("client", days=2)
    chain.write_text(chain.read_text() + authority.certificate.read_text())
    config = Config(
        data_dir=tmp_path,
        kafka=KafkaConfig(ssl_certfile=chain),
        clickhouse=ClickHouseConfig(client_cert_file=chain),
    )

    found = look_at_certificates(config, within_s=1.0)

    assert days_left(found) == {"kafka.ssl_certfile": 2, "clickhouse.client_cert_file": 2}


def test_a_server_that_is_trusted_by_its_own_certificate_is_looked_at(tmp_path: Path) -> None:
    """It is no authority. What cannot be read has findings of its own elsewhere."""
    alone = Authority(tmp_path / "authority").issue("server", host="localhost", days=2)
    config = Config(
        data_dir=tmp_path,
        kafka=KafkaConfig(ssl_cafile=alone),
        clickhouse=ClickHouseConfig(ca_file=tmp_path / "none.pem"),
    )

    assert days_left(look_at_certificates(config, within_s=1.0)) == {"kafka.ssl_cafile": 2}
