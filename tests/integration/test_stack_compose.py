"""docker-compose.yml, read by a real Compose parser. Needs no Docker engine."""

import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest
import yaml

pytestmark = pytest.mark.full

ROOT = Path(__file__).resolve().parents[2]
BROKERS = ("kafka-1", "kafka-2", "kafka-3")
OURS = ("windows-1", "windows-2", "finals", "alerts", "costs", "sink", "deliver", "dashboard")
BESIDE = ("grafana", "prometheus", "alertmanager", "jaeger")
EDGE = ("agent", "proxy")
LONG_RUNNING = (*BROKERS, "clickhouse", *OURS, *BESIDE)


def parser() -> list[str]:
    """``docker compose`` where the client has it, else ``docker-compose``."""
    plugin = ["docker", "compose"]
    if (
        shutil.which("docker")
        and subprocess.run([*plugin, "version"], check=False, capture_output=True).returncode == 0
    ):
        return plugin
    if shutil.which("docker-compose"):
        return ["docker-compose"]
    pytest.fail("no Compose parser here: install Debian's docker-compose, or Docker's compose plugin")


@cache
def compose(*arguments: str) -> str:
    """What the parser makes of the file, profile edge and all."""
    command = [*parser(), "--file", str(ROOT / "docker-compose.yml"), "--profile", "edge", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def service(name: str) -> str:
    """The lines of one service in the parser's own, fully expanded form."""
    found = re.search(rf"^  {name}:\n((?:    .*\n|\n)+)", compose("config"), re.MULTILINE)
    assert found is not None, f"there is no service {name}"
    return found.group(1)


def test_the_parser_finds_all_parts() -> None:
    """Three brokers, the database, migration, two windows workers, every other service, and what stands beside."""
    assert sorted(compose("config", "--services").split()) == sorted((*LONG_RUNNING, *EDGE, "simulator", "migrate"))


def test_no_image_is_a_moving_target() -> None:
    """Every image has a version, none is latest."""
    images = re.findall(r"^    image: (\S+)$", compose("config"), re.MULTILINE)

    assert len(images) == len(LONG_RUNNING) + len(EDGE) + 2
    assert [image for image in images if not re.search(r":v?\d+\.\d+", image)] == []


def test_every_long_running_service_is_watched_and_bounded() -> None:
    """Health check, memory, CPU, processes, restart."""
    for name in (*LONG_RUNNING, *EDGE):
        text = service(name)

        missing = [
            word
            for word in ("healthcheck:", "mem_limit:", "cpus:", "pids_limit:", "restart: unless-stopped")
            if word not in text
        ]
        assert missing == [], name


@pytest.mark.parametrize("name", [*BROKERS, "clickhouse", "grafana", "prometheus", "alertmanager"])
def test_what_keeps_data_keeps_it_on_a_volume(name: str) -> None:
    """A container can be made anew without loss."""
    assert f"{name}:/" in service(name) or f"source: {name}" in service(name)
    assert name in compose("config", "--volumes").split()


@pytest.mark.parametrize("name", BROKERS)
def test_an_acknowledged_record_is_on_two_brokers(name: str) -> None:
    """Replication 3, two in sync, no unclean leader, for topics, offsets and transactions."""
    wanted = {
        "KAFKA_DEFAULT_REPLICATION_FACTOR": "3",
        "KAFKA_MIN_INSYNC_REPLICAS": "2",
        "KAFKA_UNCLEAN_LEADER_ELECTION_ENABLE": "false",
        "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "3",
        "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "3",
        "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "2",
        "KAFKA_AUTO_CREATE_TOPICS_ENABLE": "false",
    }

    found = dict(re.findall(r"^      (KAFKA_\w+): ['\"]?([^'\"\n]*)['\"]?$", service(name), re.MULTILINE))

    assert {key: found.get(key) for key in wanted} == wanted


def test_brokers_differ_in_identity_alone() -> None:
    """Three node ids, three addresses."""
    ids = {re.search(r"KAFKA_NODE_ID: ['\"]?(\d)", service(name)).group(1) for name in BROKERS}  # type: ignore[union-attr]
    addresses = {
        re.search(r"KAFKA_ADVERTISED_LISTENERS: (\S+)", service(name)).group(1)  # type: ignore[union-attr]
        for name in BROKERS
    }

    assert (ids, len(addresses)) == ({"1", "2", "3"}, 3)


def test_ports_are_published_on_loopback_alone() -> None:
    """Nothing is open to other machines until somebody decides so."""
    text = compose("config")
    short = re.findall(r"^    - (\S+:\d+:\d+)", text, re.MULTILINE)
    long = re.findall(r"published: .*", text)

    assert len(short) == 11 or len(long) == 11
    assert [port for port in short if not port.startswith("127.0.0.1:")] == []
    assert text.count("host_ip: 127.0.0.1") == len(long)


@pytest.mark.parametrize("name", ["migrate", *OURS])
def test_our_own_services_run_with_as_little_as_possible(name: str) -> None:
    """No rights, no writable root, no password in the environment."""
    text = service(name)

    assert "read_only: true" in text
    assert "no-new-privileges" in text
    assert re.search(r"cap_drop:\n\s+- ALL", text)
    login = {"dashboard": "reader", "deliver": None}.get(name, "writer")  # who delivers reads Kafka alone
    assert set(re.findall(r"PASSWORD_FILE: /run/secrets/clickhouse_(\w+)", text)) == ({login} - {None})
    assert ("clickhouse_writer" in text) == (login == "writer")
    assert not re.search(r"(PASSWORD|TOKEN): ", text)


@pytest.mark.parametrize("name", [*EDGE, "simulator"])
def test_an_edge_has_no_login_to_the_database(name: str) -> None:
    """Nor rights, nor a writable root; it is there with the profile alone, and keeps its spool."""
    text = service(name)

    assert "CLICKHOUSE" not in text
    assert "clickhouse_writer" not in text
    assert "read_only: true" in text
    assert re.search(r"cap_drop:\n\s+- ALL", text)
    assert re.search(r"profiles:\n\s+- edge", text)
    assert re.search(r"edge:/var/lib/fleetpulse|target: /var/lib/fleetpulse", text)


@pytest.mark.parametrize("name", ["alerts", "costs", "dashboard"])
def test_files_of_prices_rules_and_budgets_are_mounted_and_named(name: str) -> None:
    """Whoever reads them finds the folder; without one of theirs the shipped example is rated by, which says so."""
    text = service(name)

    assert re.search(r"data/prices:/etc/fleetpulse:ro|target: /etc/fleetpulse", text)
    assert "FLEETPULSE_RULES: " in text
    assert "FLEETPULSE_BUDGETS: " in text
    assert "FLEETPULSE_PRICES: /etc/fleetpulse/example.yaml" in text


@pytest.mark.parametrize("name", BESIDE)
def test_what_stands_beside_has_no_rights_either(name: str) -> None:
    """No writable root, no new rights, no password in the environment."""
    text = service(name)

    assert "read_only: true" in text
    assert "no-new-privileges" in text
    assert re.search(r"cap_drop:\n\s+- ALL", text)
    assert not re.search(r"PASSWORD: ", text)


def test_workers_of_one_job_have_names_of_their_own() -> None:
    """Static membership: two workers of one name would take each other's partitions."""
    names = [found for name in OURS for found in re.findall(r"--name\n\s+- (\S+)", service(name))]

    assert len(names) == len(set(names)) == 6


def test_prometheus_scrapes_every_service_of_ours() -> None:
    """At the port that each serves its figures on, and no other."""
    config = yaml.load((ROOT / "deploy" / "prometheus" / "prometheus.yaml").read_text(), yaml.CSafeLoader)
    (ours,) = [job for job in config["scrape_configs"] if job["job_name"] == "fleetpulse"]

    assert sorted(ours["static_configs"][0]["targets"]) == sorted(f"{name}:8080" for name in OURS)
    assert ours["dns_sd_configs"][0]["names"] == [*EDGE]
    assert [name for name in (*OURS, *EDGE) if "8080" not in service(name)] == []
    assert [name for name in (*OURS, *EDGE) if "FLEETPULSE_HEALTH_HOST: 0.0.0.0" not in service(name)] == []
