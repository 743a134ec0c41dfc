"""Make the passwords of a Compose installation: ``python3 deploy/make_secrets.py``. Standard library alone.

Writes ``deploy/secrets/`` (open to its owner alone, ignored by git): the writer's and the reader's password of
ClickHouse, ClickHouse's users file, which holds their hashes, the password of every part's login in Kafka and the
brokers' file of all of them, the dashboard's token and the password of Grafana's admin, and an empty file for each
secret of Alertmanager's receivers. What is there already is kept.
Files of the checkout that containers mount are made readable by all: under a umask of 077 they are not.
"""

from __future__ import annotations

import hashlib
import secrets
import stat
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

FOLDER = Path(__file__).with_name("secrets")
WRITER_GRANTS = (
    "GRANT ALL ON fleetpulse*.*",
    "GRANT TABLE ENGINE ON *",
    "GRANT CREATE FUNCTION, DROP FUNCTION ON *.*",
    "GRANT SELECT ON system.*",
)
READER_GRANTS = ("GRANT SELECT, dictGet, SHOW ON fleetpulse.*",)

MOUNTED = (
    "deploy/clickhouse/backups.xml",
    "deploy/clickhouse/metrics.xml",
    "deploy/helm/fleetpulse/files/run-job.sh",
    "deploy/prometheus/agents.yaml",
    "deploy/prometheus/alertmanager.yaml",
    "deploy/prometheus/pipeline.yaml",
    "deploy/prometheus/prometheus.yaml",
    "deploy/prometheus/rules.yaml",
    "fleetpulse/data/prices",
    "grafana/dashboards",
    "grafana/provisioning",
)
"""Files and folders of the checkout that docker-compose.yml mounts, but for the secrets. Of deploy/prometheus, which is
mounted as a whole, the files that are read there: whatever else somebody put there may be a secret."""

RECEIVERS = ("alertmanager-slack-url", "alertmanager-pagerduty-key")
"""Secrets of yours, empty until you fill them in, by which Alertmanager notifies somebody."""

KAFKA_LOGINS = ("edge", "gateway", "jobs", "sink", "deliver", "people", "migrate")
"""Roles of ``schemas/contract/rights.py``; the login of each is ``fleetpulse-ROLE``."""
BROKER = "broker"
"""The login by which brokers speak to one another."""

_USERS = """<clickhouse>
  <profiles>
    <fleetpulse_writer><async_insert>0</async_insert></fleetpulse_writer>
    <fleetpulse_reader>
      <readonly>2</readonly>
      <max_execution_time>30</max_execution_time>
      <max_memory_usage>8589934592</max_memory_usage>
      <max_memory_usage_for_user>17179869184</max_memory_usage_for_user>
      <max_rows_to_read>2000000000</max_rows_to_read>
      <max_bytes_to_read>200000000000</max_bytes_to_read>
      <max_result_rows>100000000</max_result_rows>
      <max_concurrent_queries_for_user>50</max_concurrent_queries_for_user>
      <constraints>
        <max_execution_time><min>1</min><max>30</max></max_execution_time>
        <max_memory_usage><min>1</min><max>8589934592</max></max_memory_usage>
        <max_memory_usage_for_user><min>1</min><max>17179869184</max></max_memory_usage_for_user>
        <max_rows_to_read><min>1</min><max>2000000000</max></max_rows_to_read>
        <max_bytes_to_read><min>1</min><max>200000000000</max></max_bytes_to_read>
        <max_result_rows><disallowed>0</disallowed><max>100000000</max></max_result_rows>
        <max_concurrent_queries_for_user><min>1</min><max>50</max></max_concurrent_queries_for_user>
      </constraints>
    </fleetpulse_reader>
  </profiles>
  <users>{users}
  </users>
</clickhouse>
"""
_USER = """
    <{name}>
      <password_sha256_hex>{digest}</password_sha256_hex>
      <networks><ip>::/0</ip></networks>
      <profile>{profile}</profile>
      <quota>default</quota>
      <grants>{grants}</grants>
    </{name}>"""


def users_file(writer_password: str, reader_password: str) -> str:
    """ClickHouse's users, with the hashes of their passwords."""
    return _USERS.format(
        users=_user("fleetpulse", writer_password, "fleetpulse_writer", WRITER_GRANTS)
        + _user("reader", reader_password, "fleetpulse_reader", READER_GRANTS)
    )


def _user(name: str, password: str, profile: str, grants: tuple[str, ...]) -> str:
    return _USER.format(
        name=name,
        digest=hashlib.sha256(password.encode()).hexdigest(),
        profile=profile,
        grants="".join(f"<query>{grant}</query>" for grant in grants),
    )


def kafka_logins(passwords: Mapping[str, str]) -> str:
    """The brokers' JAAS file: passwords by login, the brokers' own among them."""
    users = "".join(f'\n  user_{login}="{password}"' for login, password in passwords.items())
    own = f'username="{BROKER}"\n  password="{passwords[BROKER]}"'
    return f"KafkaServer {{\n  org.apache.kafka.common.security.plain.PlainLoginModule required\n  {own}{users};\n}};\n"


def make(folder: Path) -> None:
    """Fill ``folder``. Its files are readable by all, for the containers' users; the folder itself is not."""
    folder.mkdir(mode=0o700, exist_ok=True)
    folder.chmod(0o700)
    writer = _password(folder / "clickhouse-writer")
    reader = _password(folder / "clickhouse-reader")
    _password(folder / "dashboard-token")
    _password(folder / "grafana-admin")
    passwords = {f"fleetpulse-{role}": _password(folder / f"kafka-{role}") for role in KAFKA_LOGINS}
    passwords[BROKER] = _password(folder / "kafka-broker")
    for name in RECEIVERS:
        (folder / name).touch()
        (folder / name).chmod(0o644)
    _write(folder / "kafka-jaas.conf", kafka_logins(passwords))
    _write(folder / "clickhouse-users.xml", users_file(writer, reader))


def open_to_containers(paths: Iterable[Path]) -> None:
    """Let everybody read the files and enter the folders, with all that is in them, and the folders that the files are
    in: users of containers are others to whoever cloned the repository."""
    given = set(paths)
    inside = (one for path in given for one in path.rglob("*"))
    for path in {*given, *inside, *(path.parent for path in given if path.is_file())}:
        mode = stat.S_IMODE(path.stat().st_mode)
        wanted = mode | (0o555 if path.is_dir() else 0o444)
        if wanted != mode:
            path.chmod(wanted)


def _password(path: Path) -> str:
    kept = path.read_text(encoding="ascii") if path.exists() else ""  # empty: a run that was killed, or a full disk
    _write(path, kept if kept.strip() else secrets.token_urlsafe(24))
    return path.read_text(encoding="ascii").strip()


def _write(path: Path, text: str) -> None:
    """In place: ClickHouse reads its users again by itself, and a container keeps the very file that it mounted."""
    if not path.exists() or path.read_text(encoding="ascii") != text:  # what is right is not cut off first
        path.write_text(text, encoding="ascii")
    path.chmod(0o644)  # whatever the umask is


if __name__ == "__main__":
    make(FOLDER)
    open_to_containers(Path(__file__).parents[1] / name for name in MOUNTED)
    sys.stdout.write(f"passwords are in {FOLDER}\n")
