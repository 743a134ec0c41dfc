"""What the pages about operations have people paste does what it says, with the files that are shipped."""

import re
import subprocess
import sys
import threading
import tomllib
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from runtime.config import load
from schemas.contract.rights import Operation, Resource, Right, rights_of, writers_of_both
from schemas.contract.topics import ALERT_COMMANDS, SOURCE_TOPICS

ROOT = Path(__file__).resolve().parents[3]
KUBERNETES = ROOT / "deploy" / "kubernetes"
PAGE = (ROOT / "docs" / "how-to" / "operations.md").read_text()
RUNNING = (ROOT / "docs" / "how-to" / "running.md").read_text()
BLOCKS: list[str] = re.findall(r"^ *```\w*\n(.*?)^ *```", PAGE, re.MULTILINE | re.DOTALL)


def block_with(text: str) -> str:
    """The one block that has it."""
    (found,) = (block for block in BLOCKS if text in block)
    return found


def test_rejected_records_are_sent_again_by_a_login_with_both_roles() -> None:
    """The record of who ran it stands on one topic, the events on others: no role may write both."""
    section = RUNNING.partition("### Records rejected")[2].partition("\n### ")[0]
    given: dict[str, str] = dict(re.findall(r"--acls (\w+)=(\w+)", section))
    rights = set[Right]().union(*(rights_of(role, "local") for role in given))

    assert len(set(given.values())) == 1
    assert {Right(Resource.TOPIC, topic.name, Operation.WRITE) for topic in SOURCE_TOPICS} <= rights
    assert Right(Resource.TOPIC, ALERT_COMMANDS, Operation.WRITE) in rights
    assert not writers_of_both({"X": rights})


def test_rights_are_given_in_the_deployment_that_the_manifests_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command makes topics and writes whose they are: by another name every part would be turned away."""
    shipped = tomllib.loads((KUBERNETES / "fleetpulse.toml").read_text())
    folder = tmp_path / "administrator"
    folder.mkdir()
    for name in ("kafka-password", "kafka-ca.crt", "clickhouse-writer", "clickhouse-ca.crt"):
        (folder / name).write_text("secret")
    (tmp_path / "deploy").symlink_to(ROOT / "deploy")
    monkeypatch.chdir(tmp_path)
    block = block_with("--acls edge=fleetpulse-edge").partition("fleetpulse migrate")[0]
    said = subprocess.run(["sh", "-ec", f"{block}\nenv"], capture_output=True, text=True, check=True).stdout
    for line in said.splitlines():
        name, _, value = line.partition("=")
        if name.startswith("FLEETPULSE_"):
            monkeypatch.setenv(name, value)

    config = load()

    assert config.kafka.deployment == shipped["kafka"]["deployment"] == "production"
    assert config.kafka.sasl_username == "ADMINISTRATOR"
    assert config.kafka.bootstrap == shipped["kafka"]["bootstrap"]
    assert config.clickhouse.url.startswith("https://")
    assert config.clickhouse.password.get_secret_value() == "secret"


def test_a_rotated_password_reaches_every_part() -> None:
    """Who reads it at its start alone is restarted: all units, services of Compose with the writer's, every pod."""
    section = PAGE[PAGE.index("### Rotate a password") : PAGE.index("## Several deployments")]
    units = {path.stem.rstrip("@") for path in (ROOT / "deploy" / "systemd").glob("*.service")}
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    writers = {name for name, one in services.items() if "clickhouse_writer" in one.get("secrets", ())}
    (recreated,) = re.findall(r"^docker compose up .*--no-deps (.*)$", section, re.MULTILINE)
    made = [yaml.safe_load_all(path.read_text()) for path in KUBERNETES.glob("*.yaml")]
    pods = {f"{one['kind'].lower()}/{one['metadata']['name']}" for objects in made for one in objects if _runs_on(one)}

    assert set(re.findall(r"fleetpulse-[a-z]+(?=[ @\n])", " ".join(re.findall(r"systemctl.*\n", section)))) == units
    assert set(recreated.split()) == writers - {"migrate"}
    restarted = " ".join(re.findall(r"rollout restart (.*)$", section, re.MULTILINE)).split()
    assert sorted(restarted) == sorted(pods)


def _runs_on(one: dict[str, Any]) -> bool:
    return one.get("kind") in ("StatefulSet", "Deployment", "DaemonSet")


def test_the_agent_s_pod_is_asked_with_the_agent_s_rights() -> None:
    """`kubectl exec` begins as root, to whom all is open: the line steps down as the pod's own command does."""
    objects = yaml.safe_load_all((KUBERNETES / "agent.yaml").read_text())
    (agent,) = (one for one in objects if one["kind"] == "DaemonSet")
    (container,) = agent["spec"]["template"]["spec"]["containers"]
    _, *options = container["command"]

    (line,) = re.findall(r"`kubectl [^`]* -- (setpriv [^`]*)`", RUNNING)
    assert line.split() == ["setpriv", *options, "agent", "--probe"]
    assert "-- fleetpulse agent --probe" not in RUNNING


@pytest.mark.enable_socket
def test_a_part_without_curl_says_why_it_is_not_ready() -> None:
    """The lines of Python print the body of a 503 too, in Compose and in an agent's pod."""

    class Unready(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(503)
            self.end_headers()
            self.wfile.write(f'{{"ok": false, "at": "{self.path}"}}'.encode())

        def log_message(self, format: str, *args: object) -> None:
            pass

    scripts = re.findall(r'python -c "(import http[^"`]*)"`', RUNNING)
    with HTTPServer(("127.0.0.1", 0), Unready) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        here = [re.sub(r"\b(8080|9464)\b", str(server.server_port), one) for one in scripts]
        environment = {"FLEETPULSE_HEALTH_HOST": "127.0.0.1", "http_proxy": "http://127.0.0.1:9"}
        said = [
            subprocess.run([sys.executable, "-c", one], env=environment, capture_output=True, text=True, check=True)
            for one in here
        ]
        server.shutdown()

    assert len(scripts) == 2
    assert [one.stdout for one in said] == ['{"ok": false, "at": "/readyz"}\n'] * 2


def test_kafka_s_tools_are_found_in_the_brokers_container() -> None:
    """By their whole path; who they log in as may set groups back."""
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    name, server = re.findall(
        r"`docker compose exec [^`]* (\S+) /opt/kafka/bin/\S+ --bootstrap-server (\S+):", RUNNING
    )[0]
    login, file = re.findall(r'username="([\w-]+)" password="\$\(cat deploy/secrets/([\w-]+)\)";', RUNNING)[0]

    assert services[name]["image"].startswith("apache/kafka:")
    assert server == services[name]["hostname"]
    assert f"User:{login}" in services[name]["environment"]["KAFKA_SUPER_USERS"].split(";")
    assert login.removeprefix("fleetpulse-") == file.removeprefix("kafka-")


def test_a_second_overlay_has_a_role_and_a_binding_of_its_own() -> None:
    """What is the cluster's has its name in the manifests, and another after the patches of the page, each of them."""
    every = [one for path in KUBERNETES.glob("*.yaml") for one in yaml.safe_load_all(path.read_text())]
    found = {(one["kind"], one["metadata"]["name"]): one for one in every if str(one.get("kind")).startswith("Cluster")}

    for each in yaml.safe_load(block_with("kind: ClusterRoleBinding"))["patches"]:
        one = found.pop((each["target"]["kind"], each["target"]["name"]))
        for step in yaml.safe_load(each["patch"]):
            section, name = step["path"].strip("/").split("/")
            assert (step["op"], one[section][name]) == ("replace", "fleetpulse-agent")
            one[section][name] = step["value"]
        assert "fleetpulse-agent" not in str(one)
    assert not found


def test_people_s_sql_is_asked_where_the_reader_s_login_is() -> None:
    """A job has the writer's alone, as which it does not run."""
    (row,) = re.findall(r"^\| `query`.*$", RUNNING, re.MULTILINE)
    objects = yaml.safe_load_all((KUBERNETES / "services.yaml").read_text())
    (pod,) = (one for one in objects if _runs_on(one) and f"deployment/{one['metadata']['name']}" in row)
    (container,) = pod["spec"]["template"]["spec"]["containers"]
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    (composed,) = (one for name, one in services.items() if f"docker compose exec {name} " in row)

    assert "FLEETPULSE_CLICKHOUSE_READER__URL" in {one["name"] for one in container["env"]}
    assert "FLEETPULSE_CLICKHOUSE_READER__URL" in composed["environment"]
    assert "fleetpulse-as dashboard query" in row


def test_a_helm_command_that_waits_says_how_long() -> None:
    """Five minutes, which it waits by itself, are too few for agents that are replaced a tenth at a time."""
    told = [line for block in BLOCKS for line in block.replace("\\\n", " ").splitlines() if " --wait" in line]

    assert len(told) >= 5
    assert [line for line in told if "helm" in line and "--timeout" not in line] == []


def test_nginx_passes_on_to_who_logs_people_in() -> None:
    """What it asks, and where it sends who is not logged in, is elsewhere than the dashboard, which answers neither."""
    page = (ROOT / "docs" / "how-to" / "dashboard.md").read_text()
    (block,) = re.findall(r"^```\n(location .*?)^```", page, re.MULTILINE | re.DOTALL)
    places = re.findall(r"^location (= )?(\S+) \{.*?proxy_pass (\S+);.*?^\}", block, re.MULTILINE | re.DOTALL)
    exact = {path: server for equals, path, server in places if equals}
    prefixes = {path: server for equals, path, server in places if not equals}

    for asked in re.findall(r"(?:auth_request|error_page 401 =) (\S+);", block):
        nearest = max((path for path in prefixes if asked.startswith(path)), key=len)
        assert exact.get(asked, prefixes[nearest]) != prefixes["/"], asked


def test_a_sink_is_stopped_before_tables_are_restored() -> None:
    """Rows that it lands meanwhile end `RESTORE` in the middle."""
    section = PAGE.partition("## Back up and restore")[2].partition("\n## ")[0]
    before, _, after = section.partition("### Set the groups back")

    assert "Stop every sink before `RESTORE`" in before
    assert "allow_non_empty_tables" in before
    assert "rerate" in after
