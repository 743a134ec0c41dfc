"""The Helm chart where it says the same as other files, as text. ``tests/integration/test_chart.py`` renders it."""

import json
import re
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
CHART = ROOT / "deploy" / "helm" / "fleetpulse"
KUBERNETES = ROOT / "deploy" / "kubernetes"
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
VALUES = yaml.load((CHART / "values.yaml").read_text(), yaml.CSafeLoader)
SCHEMA = json.loads((CHART / "values.schema.json").read_text())
TEMPLATES = "".join(path.read_text() for path in sorted((CHART / "templates").iterdir()))


def test_versions_are_those_of_the_project() -> None:
    """Of the chart, of the image in the manifests, and of what Kustomize would have."""
    chart = yaml.load((CHART / "Chart.yaml").read_text(), yaml.CSafeLoader)
    kustomization = yaml.load((KUBERNETES / "kustomization.yaml").read_text(), yaml.CSafeLoader)
    rendered = yaml.load((KUBERNETES / "values.yaml").read_text(), yaml.CSafeLoader)

    assert (chart["version"], chart["appVersion"]) == (VERSION, VERSION)
    assert kustomization["images"] == [{"name": "fleetpulse", "newTag": VERSION}]
    assert rendered["image"]["tag"] == VERSION


def test_settings_of_the_chart_are_those_beside_the_manifests() -> None:
    """fleetpulse.toml has comments for people; the values of the chart say the same; prices, and who is notified where
    nobody is named, it names by itself."""
    beside = tomllib.loads((KUBERNETES / "fleetpulse.toml").read_text())
    (url,) = re.findall(r'ternary "(http\S+)" ""', TEMPLATES)
    target = {"name": "default", "kind": VALUES["deliver"]["kind"], "endpoint_url": url}

    assert {
        **VALUES["settings"],
        "prices": "/etc/fleetpulse/prices.yaml",
        "delivery": {"targets": [target]},
    } == beside


@pytest.mark.parametrize("name", ["run-job.sh", "prices.yaml"])
def test_files_of_the_chart_are_those_beside_the_manifests(name: str) -> None:
    """Byte for byte; Kustomize reads no file outside its folder."""
    assert (CHART / "files" / name).read_bytes() == (KUBERNETES / name).read_bytes()


def test_an_upgrade_by_kustomize_finds_the_job_and_its_settings_by_label() -> None:
    """The selectors of the page: what comes first, and what comes last; all other objects are in neither."""
    kustomization = yaml.load((KUBERNETES / "kustomization.yaml").read_text(), yaml.CSafeLoader)
    (settings,) = kustomization["configMapGenerator"]
    every = [
        one["metadata"].get("labels", {}).get("app.kubernetes.io/component")
        for name in kustomization["resources"]
        for one in yaml.load_all((KUBERNETES / name).read_text(), yaml.CSafeLoader)
        if one["kind"] != "Namespace"
    ]
    page = (ROOT / "docs" / "how-to" / "operations.md").read_text()

    assert settings["options"]["labels"]["app.kubernetes.io/component"] == "settings"
    assert {"migrate", "agent", "proxy", "sink"} < set(every)
    assert "settings" not in every
    assert "component in (settings, migrate)" in page
    assert "component notin (agent, proxy)" in page


def test_every_manifest_says_where_it_comes_from() -> None:
    """But for the namespace, which belongs to whoever installs the chart."""
    listed = yaml.load((KUBERNETES / "kustomization.yaml").read_text(), yaml.CSafeLoader)["resources"]
    first = {name: (KUBERNETES / name).read_text().splitlines()[0] for name in listed if name != "namespace.yaml"}

    assert first == {
        name: f"# Written by `make manifests` from deploy/helm/fleetpulse/templates/{name}; change that one."
        for name in first
    }
    assert all((CHART / "templates" / name).exists() for name in first)


def test_every_value_is_in_the_schema_and_read_by_a_template() -> None:
    """A value with a typo is refused, and none stands there for nothing."""
    assert set(VALUES) == set(SCHEMA["properties"]) - {"global"}
    assert SCHEMA["additionalProperties"] is False
    parts = {name for name, value in VALUES.items() if isinstance(value, dict) and "resources" in value}
    for name in parts:
        assert SCHEMA["properties"][name]["additionalProperties"] is False, name
        assert set(VALUES[name]) <= set(SCHEMA["properties"][name]["properties"]), name
    ranged = set(re.findall(r'"(\w+)"', " ".join(re.findall(r"range \$name := list (.*?) }}", TEMPLATES))))
    ranged |= {"rules", "budgets"} if 'range list "rules" "budgets"' in TEMPLATES else set()
    ranged |= set(re.findall(r'"name" "(\w+)"', TEMPLATES))
    read = set(re.findall(r"\.Values\.(\w+)", TEMPLATES))

    assert set(VALUES) - read - ranged == set()
    for name in parts:
        assert set(SCHEMA["properties"][name]["properties"]) - read_of(name) == set(), name


def read_of(part: str) -> set[str]:
    """Keys of a part's values that a template reads: by its name, or by what places every part but the agent."""
    own = set(re.findall(rf"\.Values\.{part}\.(\w+)", TEMPLATES))
    if part != "agent":
        return own | set(re.findall(r"\$part\.(\w+)", TEMPLATES))
    template = (CHART / "templates" / "agent.yaml").read_text()
    image = {"imageTag"} if 'include "fleetpulse.image"' in template else set()
    return own | image | set(re.findall(r"\$agent\.(\w+)", template))


def test_no_value_is_a_secret() -> None:
    """Secrets are there before the chart, and it names them."""
    leaves = re.findall(r"(\w+): ", (CHART / "values.yaml").read_text())

    assert [name for name in leaves if re.search("(?i)password$|token$", name)] == []
    assert "kind: Secret" not in TEMPLATES
