"""The chart and the manifests, rendered by Helm and judged by kubeconform with the schemas of Kubernetes.

Needs no cluster. ``sh .ci/kubernetes-tools`` makes both programs and the schemas, which know nothing of Prometheus.
"""

import re
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from runtime.config import Config, load
from stream_jobs.budgets import load as budgets
from stream_jobs.prices import load as prices
from stream_jobs.rules import load as rules

pytestmark = pytest.mark.full

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "deploy" / "helm" / "fleetpulse"
KUBERNETES = ROOT / "deploy" / "kubernetes"
MONITORS = "monitoring.coreos.com/v1"
SETS = ("", *sorted(path.name for path in (CHART / "ci").iterdir()))


@cache
def tools() -> Path:
    """Their folder."""
    done = subprocess.run(
        ["sh", str(ROOT / ".ci" / "kubernetes-tools")], capture_output=True, text=True, check=False, timeout=500
    )
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip())


def helm(*words: str) -> subprocess.CompletedProcess[str]:
    command = [str(tools() / "helm"), *words, "--kube-version", "1.34.0"]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def values_of(name: str) -> list[str]:
    return ["--values", str(CHART / "ci" / name)] if name else []


@cache
def rendered(name: str, *words: str) -> str:
    """All that the chart makes of a file of values."""
    done = helm("template", "fleetpulse", str(CHART), "--namespace", "fleetpulse", *values_of(name), *words)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def objects(text: str) -> dict[tuple[str, str], dict[str, Any]]:
    """By kind and name, each there once."""
    found = [one for one in yaml.load_all(text, yaml.CSafeLoader) if one]
    named = {(one["kind"], one["metadata"]["name"]): one for one in found}
    assert len(named) == len(found)
    return named


def judged(text: str) -> subprocess.CompletedProcess[str]:
    """By the schemas of Kubernetes; a key that they do not know is an error, and so is one that comes twice."""
    schemas = str(tools() / "schemas") + "/{{.ResourceKind}}{{.KindSuffix}}.json"
    command = [
        str(tools() / "kubeconform"),
        "-strict",
        "-skip",
        "PodMonitor,PrometheusRule",
        "-schema-location",
        schemas,
    ]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.parametrize("name", SETS)
def test_the_chart_has_no_lint(name: str) -> None:
    """By Helm's own linter and the schema of its values, whatever is set."""
    done = helm("lint", "--strict", str(CHART), *values_of(name))

    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("name", SETS)
def test_kubernetes_would_know_every_key(name: str) -> None:
    """Of all that is made with these values."""
    done = judged(rendered(name, "--api-versions", MONITORS))

    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_kubeconform_would_have_said() -> None:
    """A key with a typo, and a value of the wrong type."""
    text = rendered("")

    typo = judged(text.replace("podManagementPolicy", "podManagmentPolicy"))
    number = judged(text.replace("replicas: 2", "replicas: two"))

    assert (typo.returncode, number.returncode) == (1, 1)
    assert "podManagmentPolicy" in typo.stdout
    assert "replicas" in number.stdout


def test_the_manifests_are_those_of_the_chart(tmp_path: Path) -> None:
    """Byte for byte what ``make manifests`` writes now."""
    command = ["sh", str(KUBERNETES / "render"), str(tools() / "helm"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)

    assert (done.returncode, done.stderr) == (0, "")
    written = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert written == {name: (KUBERNETES / name).read_text() for name in written}
    assert set(written) == {path.name for path in KUBERNETES.iterdir()} - {
        "fleetpulse.toml", "kustomization.yaml", "namespace.yaml", "render", "values.yaml"
    }  # fmt: skip


def files_of(name: str, folder: Path, *words: str) -> Config:
    """What pods find below /etc/fleetpulse, laid out in a folder, and the settings that the product reads of it."""
    data = objects(rendered(name, *words))["ConfigMap", "fleetpulse"]["data"]
    (folder / "kafka-password").write_text("x")
    for file, text in data.items():
        here = text.replace("/run/secrets/fleetpulse", str(folder)).replace("/etc/fleetpulse", str(folder))
        (folder / file).write_text(here)
    return load({"config_file": str(folder / "fleetpulse.toml"), "kafka.sasl_username": "x"})


def test_the_product_reads_the_settings_that_the_chart_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole numbers, others, lists of tables, keys with dots; prices as YAML, rules and budgets as text."""
    monkeypatch.setenv("FLEETPULSE_DATA_DIR", str(tmp_path))

    config = files_of("large-values.yaml", tmp_path)

    assert (config.limits.raw_ttl_ms, config.proxy.grace_s, config.proxy.drain_s) == (1_209_600_000, 7.5, 90.0)
    assert config.partitions == {"llm.requests": 64, "gpu.samples": 8}
    assert [(str(one.url), one.weight) for one in config.proxy.upstreams] == [
        ("http://a.inference.svc:8000", 2),
        ("http://b.inference.svc:8000", 1),
    ]
    assert config.kafka.topic_prefix == "blue."
    assert config.prices is not None
    assert config.rules is not None
    assert config.budgets is not None
    assert [one.name for one in budgets.load(config.budgets).budgets] == ["fleet"]
    assert [one.name for one in rules.load_set(config.rules).slo_classes] == ["interactive"]
    assert not prices.load(config.prices).example


def test_without_values_bills_say_example_prices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The shipped file is there, and no rules and no budgets of anybody."""
    monkeypatch.setenv("FLEETPULSE_DATA_DIR", str(tmp_path))

    config = files_of("", tmp_path)

    assert config.prices is not None
    assert prices.load(config.prices).example
    assert (config.rules, config.budgets) == (None, None)


def test_settings_may_name_a_price_file_of_the_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As they may rules and budgets; a file that is given to the chart is before it."""
    monkeypatch.setenv("FLEETPULSE_DATA_DIR", str(tmp_path))
    shipped = ROOT / "fleetpulse" / "data" / "prices" / "example.yaml"
    words = ("--set", "settings.prices=/opt/prices.yaml")

    named = files_of("", tmp_path, *words).prices
    given = files_of("", tmp_path, *words, "--set-file", f"prices={shipped}").prices

    assert (named, given) == (Path("/opt/prices.yaml"), tmp_path / "prices.yaml")


def test_list_prices_lie_beside_the_prices_that_name_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The shipped example with its map, as whoever begins from a copy of it gives them to the chart."""
    monkeypatch.setenv("FLEETPULSE_DATA_DIR", str(tmp_path))
    shipped = ROOT / "fleetpulse" / "data" / "prices"
    files = {"prices": shipped / "example.yaml", "listPrices": shipped / "list_prices.json"}

    config = files_of(
        "", tmp_path, *(word for name, path in files.items() for word in ("--set-file", f"{name}={path}"))
    )

    assert config.prices is not None
    given, ours = prices.load(config.prices), prices.load(shipped / "example.yaml")
    assert given.list_map is not None
    assert given.version == ours.version


def test_topics_and_tables_come_before_all_else() -> None:
    """The job and its settings are hooks; an upgrade of the release does not wait for a job of the one before."""
    made = objects(rendered(""))
    job, config = made["Job", "migrate"], made["ConfigMap", "fleetpulse-migrate"]
    volumes = {one["name"]: one for one in job["spec"]["template"]["spec"]["volumes"]}

    for one in (job, config):
        assert one["metadata"]["annotations"]["helm.sh/hook"] == "pre-install,pre-upgrade"
        assert one["metadata"]["annotations"]["helm.sh/hook-delete-policy"] == "before-hook-creation"
    assert config["metadata"]["annotations"]["helm.sh/hook-weight"] == "-1"
    assert volumes["config"]["configMap"]["name"] == "fleetpulse-migrate"
    assert config["data"] == made["ConfigMap", "fleetpulse"]["data"]


@pytest.mark.parametrize(
    ("given", "args"), [("{}", []), ("{--yes}", ["--yes"]), ("null", [])], ids=["taken back", "given", "none"]
)
def test_consent_can_be_taken_back(given: str, args: list[str]) -> None:
    """Helm makes one empty word of an empty list in --set, which no command takes."""
    job = objects(rendered("large-values.yaml", "--set", f"migrate.args={given}"))["Job", "migrate"]

    assert job["spec"]["template"]["spec"]["containers"][0]["args"] == ["migrate", *args]


@pytest.mark.parametrize(("consent", "args"), [("true", ["--yes"]), ("false", [])], ids=["given", "taken back"])
def test_consent_leaves_the_servers_that_are_migrated(consent: str, args: list[str], tmp_path: Path) -> None:
    """A shard of a database that is not replicated is migrated with every upgrade, whatever is consented to."""
    (tmp_path / "values.yaml").write_text("migrate: {servers: ['https://ch-2:8443', 'https://ch-3:8443']}")
    made = objects(rendered("", "--values", str(tmp_path / "values.yaml"), "--set", f"migrate.consent={consent}"))
    servers = ["--clickhouse", "https://ch-2:8443", "--clickhouse", "https://ch-3:8443"]

    (one,) = made["Job", "migrate"]["spec"]["template"]["spec"]["containers"]
    assert one["args"] == ["migrate", *args, *servers]


def sums(*words: str) -> dict[str, str]:
    """Of what is read, by the part whose pods are made anew when it changes."""
    made = objects(rendered("", *words))
    pods = {name: one for (kind, name), one in made.items() if kind in ("StatefulSet", "Deployment", "DaemonSet")}
    return {name: one["spec"]["template"]["metadata"]["annotations"]["checksum/config"] for name, one in pods.items()}


def test_a_change_of_settings_makes_pods_anew() -> None:
    """Every part's, and nothing else does."""
    before = sums()
    after = sums("--set", "settings.limits.raw_ttl_ms=1209600000")

    assert sums("--set", "windows.replicas=3") == before
    assert len(before) > 8
    assert [name for name in before if after[name] == before[name]] == []


@pytest.mark.parametrize("given", ["prices.version=", "rules.version=", "budgets.version=", "listPrices="])
def test_agents_and_proxies_stay_when_a_file_changes_that_they_never_read(given: str) -> None:
    """All others begin anew with it."""
    before, after = (sums("--set-string", f"{given}{version}") for version in (1, 2))

    assert {name for name in before if after[name] == before[name]} == {"agent", "proxy"}


def test_pods_are_monitored_where_the_cluster_can() -> None:
    """Under the names of jobs that the shipped rules ask for; the agent under its own."""
    without, with_them = objects(rendered("")), objects(rendered("", "--api-versions", MONITORS))
    monitors = {name: one["spec"] for (kind, name), one in with_them.items() if kind == "PodMonitor"}

    assert [kind for kind, _ in without if kind == "PodMonitor"] == []
    assert set(monitors) == {"fleetpulse", "fleetpulse-agents"}
    for name, spec in monitors.items():
        (endpoint,) = spec["podMetricsEndpoints"]
        assert endpoint["port"] == "health"
        assert {"targetLabel": "job", "replacement": name} in endpoint["relabelings"]
    assert {spec["selector"]["matchExpressions"][0]["operator"] for spec in monitors.values()} == {"In", "NotIn"}
    instances = {
        name: next(one for one in spec["podMetricsEndpoints"][0]["relabelings"] if one["targetLabel"] == "instance")
        for name, spec in monitors.items()
    }
    pod = ["__meta_kubernetes_namespace", "__meta_kubernetes_pod_name"]  # names of pods come again in other namespaces
    assert (instances["fleetpulse"]["sourceLabels"], instances["fleetpulse"]["separator"]) == (pod, "/")
    assert instances["fleetpulse-agents"]["sourceLabels"] == ["__meta_kubernetes_pod_node_name"]


def test_shipped_rules_reach_the_cluster_s_prometheus() -> None:
    """As they are, whatever braces are in them; the operator's objects hold nothing but their groups."""
    files = {"alerts": "rules.yaml", "itself": "pipeline.yaml"}
    folder = ROOT / "deploy" / "prometheus"
    words = [f"--set-file=prometheusRules.{name}={folder / file}" for name, file in files.items()]
    made = objects(rendered("", "--api-versions", MONITORS, *words))

    for name, file in files.items():
        assert made["PrometheusRule", f"fleetpulse-{name}"]["spec"] == yaml.load(
            (folder / file).read_text(), yaml.CSafeLoader
        )
    assert [kind for kind, _ in objects(rendered("", *words)) if kind == "PrometheusRule"] == []


def test_an_agent_that_matches_no_engines_has_no_rights() -> None:
    """Nor an account, nor root, nor the runtime class where the cluster has none."""
    made = objects(rendered("small-values.yaml"))
    pod = made["DaemonSet", "agent"]["spec"]["template"]["spec"]
    (one,) = pod["containers"]

    assert one["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert "runAsUser" not in one["securityContext"]
    assert "command" not in one
    assert {"runtimeClassName", "serviceAccountName"} & pod.keys() == set()
    assert {kind for kind, _ in made} & {
        "ServiceAccount",
        "ClusterRole",
        "ClusterRoleBinding",
        "NetworkPolicy",
    } == set()


def test_parts_are_placed_and_versioned_apart() -> None:
    """Own values before those of all; agents stay at the release before while the rest is upgraded."""
    made = objects(rendered("large-values.yaml"))
    pods = {
        name: one["spec"]["template"]["spec"] for (_, name), one in made.items() if "template" in one.get("spec", {})
    }
    images = {name: pod["containers"][0]["image"].rpartition(":")[2] for name, pod in pods.items()}

    assert (pods["windows"]["priorityClassName"], pods["finals"]["priorityClassName"]) == ("high", "platform")
    assert (pods["windows"]["nodeSelector"], pods["sink"]["nodeSelector"]) == ({"pool": "fast"}, {"pool": "system"})
    assert pods["agent"]["nodeSelector"] == {"nvidia.com/gpu.present": "true"}
    assert [name for name, pod in pods.items() if "nodeAffinity" in pod.get("affinity", {})] == ["agent"]
    assert {images.pop("agent"), images.pop("migrate")} == {"0.2.0", "0.2.2"}
    assert set(images.values()) == {"0.2.1"}
    assert "export" in images


def test_agents_of_two_releases_share_nothing_of_a_node(tmp_path: Path) -> None:
    """Port, spool and socket are values; in the container the folders are where they were."""
    (tmp_path / "values.yaml").write_text("agent: {healthPort: 9564, hostPaths: {spool: /srv/b, socket: /run/b}}")

    def of_node(*words: str) -> tuple[object, ...]:
        template = objects(rendered("", *words))["DaemonSet", "agent"]["spec"]["template"]
        (agent,) = template["spec"]["containers"]
        paths = {one["name"]: one["hostPath"]["path"] for one in template["spec"]["volumes"] if "hostPath" in one}
        mounts = {one["name"]: one["mountPath"] for one in agent["volumeMounts"] if one["name"] in paths}
        (port,) = agent["ports"]
        scraped = template["metadata"]["annotations"]["prometheus.io/port"]
        return port["hostPort"], port["containerPort"], agent["args"][-1], scraped, paths, mounts

    inside = {"spool": "/var/lib/fleetpulse", "socket": "/run/fleetpulse"}
    other = {"spool": "/srv/b", "socket": "/run/b"}
    assert of_node() == (9464, 9464, "9464", "9464", inside, inside)
    assert of_node("--values", str(tmp_path / "values.yaml")) == (9564, 9564, "9564", "9564", other, inside)


def test_agents_are_where_they_are_wanted() -> None:
    """On NVIDIA's nodes, on those of a label that is given, which replaces theirs, or on all."""

    def selector(*words: str) -> object:
        pod = objects(rendered("", *words))["DaemonSet", "agent"]["spec"]["template"]["spec"]
        return pod.get("nodeSelector")

    assert selector() == {"nvidia.com/gpu.present": "true"}
    assert selector("--set", "agent.nodeSelector.pool=amd") == {"pool": "amd"}
    assert selector("--set", "agent.onGpuNodes=false") is None


def test_agents_hash_users_by_the_secret_of_proxies() -> None:
    """Where users are hashed, so that one has one name on every node; else agents do not see it."""

    def seen(part: str, *words: str) -> tuple[bool, bool]:
        made = objects(rendered("", *words))
        pod = next(one for (kind, name), one in made.items() if name == part and kind in ("DaemonSet", "StatefulSet"))
        spec = pod["spec"]["template"]["spec"]
        (sources,) = (one["projected"]["sources"] for one in spec["volumes"] if one["name"] == "secrets")
        variables = {one["name"]: one.get("value") for one in spec["containers"][0]["env"]}
        at = variables.get("FLEETPULSE_PROXY__TENANT_SECRET_FILE")
        return {"secret": {"name": "fleetpulse-proxy"}} in sources, at == "/run/secrets/fleetpulse/tenant-secret"

    assert seen("agent") == (False, False)
    assert seen("agent", "--set", "settings.proxy.user_hash=true") == seen("proxy") == (True, True)


def test_an_export_goes_on_where_the_pod_before_it_stopped() -> None:
    """Its data directory is on a volume that outlives pods, never with two at once; no other deployment has one."""
    made = objects(rendered("large-values.yaml"))
    deployments = {name: one["spec"] for (kind, name), one in made.items() if kind == "Deployment"}
    export = deployments["export"]["template"]["spec"]
    variables = {one["name"]: one.get("value") for one in export["containers"][0]["env"]}
    mounts = {one["mountPath"]: one["name"] for one in export["containers"][0]["volumeMounts"]}
    claims = {one["name"]: one["persistentVolumeClaim"] for one in export["volumes"] if "persistentVolumeClaim" in one}

    assert claims == {mounts[variables["FLEETPULSE_DATA_DIR"]]: {"claimName": "export"}}
    assert made["PersistentVolumeClaim", "export"]["spec"]["accessModes"] == ["ReadWriteOnce"]
    assert deployments["export"]["strategy"] == {"type": "Recreate"}
    assert [name for name, one in deployments.items() if "persistentVolumeClaim" in str(one)] == ["export"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("1073741824", "1073741824"),
        ("999999", "999999"),
        ("7.5", "7.5"),
        ("true", "true"),
        ('"007"', "007"),
        ("\"a: 'b'\"", "a: 'b'"),
    ],
)
@pytest.mark.parametrize("of", ["env", "agent.env"])
def test_a_variable_is_what_its_value_says(of: str, value: str, text: str, tmp_path: Path) -> None:
    """A whole number has no exponent, which no setting would take; of every container, and of the agent's."""
    nested = f"env: {{NAME: {value}}}" if of == "env" else f"agent: {{env: {{NAME: {value}}}}}"
    (tmp_path / "values.yaml").write_text(nested)
    made = objects(rendered("", "--values", str(tmp_path / "values.yaml")))
    (agent,) = made["DaemonSet", "agent"]["spec"]["template"]["spec"]["containers"]

    assert [one["value"] for one in agent["env"] if one["name"] == "NAME"] == [text]


def test_no_container_has_a_variable_twice(tmp_path: Path) -> None:
    """An apply by the server refuses that. Of all containers, whichever of theirs the values name; a part's own value
    comes before that of all."""
    (tmp_path / "values.yaml").write_text(
        "env: {FLEETPULSE_KAFKA__SASL_USERNAME: a, FLEETPULSE_DATA_DIR: /a, POD_NAME: a, NAME: a}\n"
        "agent: {env: {FLEETPULSE_AGENT__HOST: b, NVIDIA_VISIBLE_DEVICES: '0', NAME: b}}\n"
        "export: {enabled: true}\n"
    )
    text = rendered("", "--values", str(tmp_path / "values.yaml"))
    made = objects(text)
    lists = {name: env_of(one) for (_, name), one in made.items() if "template" in one.get("spec", {})}
    agent, windows = ({each["name"]: each.get("value") for each in lists[part]} for part in ("agent", "windows"))

    assert {name for name, env in lists.items() if len({each["name"] for each in env}) < len(env)} == set()
    assert judged(text).returncode == 0
    assert (agent["FLEETPULSE_AGENT__HOST"], agent["NVIDIA_VISIBLE_DEVICES"], agent["NAME"]) == ("b", "0", "b")
    assert (agent["FLEETPULSE_DATA_DIR"], agent["FLEETPULSE_KAFKA__SASL_USERNAME"]) == ("/var/lib/fleetpulse", "a")
    assert (windows["POD_NAME"], windows["NAME"], windows["FLEETPULSE_DATA_DIR"]) == (None, "a", "/a")


def env_of(workload: dict[str, Any]) -> list[dict[str, Any]]:
    """Variables of its own container."""
    (one,) = workload["spec"]["template"]["spec"]["containers"]
    found: list[dict[str, Any]] = one["env"]
    return found


AT = "/run/secrets/fleetpulse"


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("kind=alertmanager", {"ENDPOINT_URL": "http://alertmanager.monitoring.svc:9093"}),
        ("kind=webhook,url=http://a/b", {"ENDPOINT_URL": "http://a/b"}),
        ("kind=slack,secret=chat", {"ENDPOINT_URL_FILE": f"{AT}/endpoint-url"}),
        ("kind=slack,secret=chat,url=http://a/b", {"ENDPOINT_URL_FILE": f"{AT}/endpoint-url"}),
        ("kind=pagerduty,secret=chat", {"ROUTING_KEY_FILE": f"{AT}/routing-key"}),
        (
            "kind=webhook,url=http://a/b,secret=chat,secretKeys={hmac-key,bearer-token}",
            {
                "ENDPOINT_URL": "http://a/b",
                "HMAC_KEY_FILE": f"{AT}/hmac-key",
                "BEARER_TOKEN_FILE": f"{AT}/bearer-token",
            },
        ),
    ],
)
def test_secrets_of_a_target_of_alerts_are_files_of_its_pod_alone(words: str, wanted: dict[str, str]) -> None:
    """An address with a token in it stands in no variable, and no other pod sees the secret."""
    text = rendered("", "--set", ",".join(f"deliver.{each}" for each in re.split(r",(?=[a-zA-Z]+=)", words)))
    pods = {
        name: one for (kind, name), one in objects(text).items() if kind in ("StatefulSet", "Deployment", "DaemonSet")
    }
    prefix = "FLEETPULSE_DELIVERY__DEFAULT__"
    (one,) = pods["deliver"]["spec"]["template"]["spec"]["containers"]
    found = {each["name"].removeprefix(prefix): each["value"] for each in one["env"] if each["name"].startswith(prefix)}

    assert found.pop("KIND") in words
    assert found == wanted
    assert {name for name, pod in pods.items() if "'name': 'chat'" in str(pod)} == (
        {"deliver"} if "chat" in words else set()
    )


@pytest.mark.parametrize(
    ("deliver", "wanted"),
    [("", set()), ("{url: 'http://a/b'}", {"KIND", "ENDPOINT_URL"}), ("{secret: chat}", {"KIND", "ENDPOINT_URL_FILE"})],
)
@pytest.mark.parametrize(
    "targets",
    [
        "settings: {delivery: {targets: [{name: ops, kind: webhook, endpoint_url: 'http://a/c'}]}}",
        "settings: {delivery: {default: {kind: webhook, endpoint_url: 'http://a/c'}}}",
        "existingConfigMap: ours",
    ],
    ids=["in values", "the one of a name in values", "in a config map of theirs"],
)
def test_whoever_has_targets_in_the_settings_gets_no_other(
    targets: str, deliver: str, wanted: set[str], tmp_path: Path
) -> None:
    """Unless its address is given beside them: nobody else's Alertmanager is waited for."""
    (tmp_path / "values.yaml").write_text(f"{targets}\n" + (f"deliver: {deliver}" if deliver else ""))
    made = objects(rendered("", "--values", str(tmp_path / "values.yaml")))
    (one,) = made["Deployment", "deliver"]["spec"]["template"]["spec"]["containers"]
    prefix = "FLEETPULSE_DELIVERY__DEFAULT__"

    assert {each["name"].removeprefix(prefix) for each in one["env"] if each["name"].startswith(prefix)} == wanted


@pytest.mark.parametrize(("given", "host"), [((), "0.0.0.0"), (("--set", "listenHost=::"), "::")])
def test_who_is_talked_to_listens_where_the_cluster_is(given: tuple[str, ...], host: str) -> None:
    """On a cluster of IPv6 alone nothing reaches an address of IPv4."""
    made = objects(rendered("", *given))
    parts = ("Deployment", "dashboard"), ("StatefulSet", "proxy")
    dashboard, proxy = (made[part]["spec"]["template"]["spec"]["containers"][0]["args"] for part in parts)

    assert dashboard[:3] == ["dashboard", "--host", host]
    assert proxy[:2] == ["proxy", f"--host={host}"]


@pytest.mark.parametrize("name", ["windows", "sink", "dashboard", "proxy"])
def test_a_part_can_be_stopped(name: str) -> None:
    """No replica is a number of replicas."""
    made = objects(rendered("", "--set", f"{name}.replicas=0"))
    (replicas,) = (
        one["spec"]["replicas"] for (_, part), one in made.items() if part == name and "replicas" in one.get("spec", {})
    )

    assert replicas == 0


@pytest.mark.parametrize("name", ["windows", "sink", "dashboard", "proxy"])
def test_the_number_of_a_part_can_be_an_autoscaler_s(name: str) -> None:
    """Without a number an upgrade leaves what was scaled; who is alone stays so."""
    made = objects(rendered("", "--set", f"{name}.replicas=null"))
    numbers = {part: one["spec"].get("replicas") for (kind, part), one in made.items() if kind in SCALED}

    assert numbers[name] is None
    assert {part for part, number in numbers.items() if number is None} == {name}
    assert numbers["deliver"] == 1


SCALED = ("StatefulSet", "Deployment")


@pytest.mark.parametrize(
    ("setting", "part", "grace_s"),
    [
        ("agent.drain_ms=600000", "agent", 625),
        ("agent.drain_ms=1000", "agent", 40),
        ("delivery.drain_s=300", "deliver", 325),
        ("delivery.drain_s=7.5", "deliver", 40),
    ],
)
def test_a_pod_has_longer_than_its_part_drains(setting: str, part: str, grace_s: int) -> None:
    """As the settings say; no other pod waits with it."""
    made = objects(rendered("", "--set", f"settings.{setting}"))
    pods = {
        name: one["spec"]["template"]["spec"].get("terminationGracePeriodSeconds")
        for (kind, name), one in made.items()
        if kind in (*SCALED, "DaemonSet")
    }

    assert pods.pop(part) == grace_s
    assert pods.pop("proxy") == 60
    assert set(pods.values()) == {40}


@pytest.mark.parametrize(("size", "room"), [("2Gi", True), ("1100M", True), ("1Gi", False), ("1G", False)])
def test_a_spool_has_room_on_its_volume(size: str, room: bool) -> None:
    """Else the disk is full before the spool is, at its limit of 1 GiB."""
    done = helm("template", "fleetpulse", str(CHART), "--set", f"proxy.spool.size={size}")

    assert (done.returncode == 0) is room
    assert ("spool_bytes_max" in done.stderr) is not room


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("--set", "windows.replica=3"), "replica"),
        (("--set", "settings.kafka.sasl_password=x"), "kafka"),
        (("--set", "logins.jobs.secret="), "secret"),
        (("--set", "settings.proxy.drain_s=90"), "terminationGracePeriodSeconds"),
        (("--set", "windows.resources.limits=null"), "limits"),
    ],
    ids=lambda value: value[-1] if isinstance(value, tuple) else "",
)
def test_what_cannot_be_right_is_refused(words: tuple[str, ...], named: str) -> None:
    """A typo, a secret among the settings, no login, streams that would be cut, memory without bounds."""
    done = helm("template", "fleetpulse", str(CHART), *words)

    assert done.returncode != 0
    assert named in done.stderr


def test_kustomize_finds_every_file() -> None:
    """What kustomization.yaml names is there; a build itself needs kubectl."""
    kustomization = yaml.load((KUBERNETES / "kustomization.yaml").read_text(), yaml.CSafeLoader)
    named = [*kustomization["resources"], *kustomization["configMapGenerator"][0]["files"]]

    assert [name for name in named if not (KUBERNETES / name).exists()] == []
    done = judged("---\n".join((KUBERNETES / name).read_text() for name in kustomization["resources"]))
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_the_dashboards_users_are_a_secret_of_its_pod_alone() -> None:
    """Mounted beside its others, and named by the variable that the product reads; nowhere without one."""
    made = {name: yaml.dump(one) for (_, name), one in objects(rendered("large-values.yaml")).items()}

    assert "value: /run/secrets/fleetpulse/dashboard-users.json" in made["dashboard"]
    assert [name for name, text in made.items() if "name: dashboard-users" in text] == ["dashboard"]
    assert "DASHBOARD_USERS" not in rendered("")
