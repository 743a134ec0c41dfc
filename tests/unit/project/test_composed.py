"""What Compose and Kubernetes start: commands that exist, with options and settings that the product takes.

There is no engine to start them with; this is as near as it comes without one.
"""

from __future__ import annotations

import re
import shlex
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from fleetpulse.cli import app
from runtime.config import Config, load
from stream_jobs.budgets import load as budgets
from stream_jobs.prices import load as prices
from stream_jobs.rules import load as rules

ROOT = Path(__file__).resolve().parents[3]
SERVICES: dict[str, dict[str, Any]] = {
    name: one
    for name, one in yaml.load((ROOT / "docker-compose.yml").read_text(), yaml.CSafeLoader)["services"].items()
    if str(one.get("image", "")).startswith("fleetpulse")
}
EDGE = {name for name, one in SERVICES.items() if one.get("profiles") == ["edge"]}
MANIFESTS = [
    one
    for path in sorted((ROOT / "deploy" / "kubernetes").glob("*.yaml"))
    for one in yaml.load_all(path.read_text(), yaml.CSafeLoader)
    if "template" in (one or {}).get("spec", {})
]


def interpolated(text: str, env: dict[str, str]) -> str:
    """As Compose fills in ``${NAME:-default}`` from ``.env``."""
    return re.sub(r"\$\{(\w+):-([^}]*)\}", lambda found: env.get(found[1]) or found[2], str(text))


@cache
def help_of(*command: str) -> str:
    shown = CliRunner().invoke(app, [*command, "--help"], env={"COLUMNS": "200", "NO_COLOR": "1"})
    assert shown.exit_code == 0, command
    return shown.output


def unknown_options(words: list[str]) -> list[str]:
    """Of a command line those that the command's own help does not have."""
    command = [word for word in words[:1] if re.fullmatch("[a-z]+", word)]
    assert command, words
    options = [word.partition("=")[0] for word in words if word.startswith("--")]
    return [option for option in options if option not in help_of(*command)]


@pytest.mark.parametrize("name", SERVICES)
def test_a_composed_service_starts_a_command_that_exists(name: str) -> None:
    """With options that it has; the edge profile's as well, the simulator among them."""
    words = [interpolated(word, {}) for word in SERVICES[name]["command"]]

    assert unknown_options(words) == []


@pytest.mark.parametrize("one", MANIFESTS, ids=lambda one: one["metadata"]["name"])
def test_a_container_starts_a_command_that_exists(one: dict[str, Any]) -> None:
    """As in Compose; jobs by the script that starts them again."""
    (container,) = one["spec"]["template"]["spec"]["containers"]
    command, args = container.get("command", []), container.get("args", [])
    words = ["jobs", *command[2:]] if "run-job.sh" in " ".join(command) else args

    assert unknown_options(words) == []


def environment_of(name: str, folder: Path, env: dict[str, str]) -> dict[str, str]:
    """A service's variables, with its mounts and secrets in a folder."""
    one = SERVICES[name]
    (folder / "secrets").mkdir(exist_ok=True)
    for secret in one.get("secrets", ()):
        (folder / "secrets" / (secret if isinstance(secret, str) else secret["target"])).write_text("x" * 32)
    files = [interpolated(each, env) for each in one["volumes"]]
    mounts = {target: source for source, target, *_ in (each.split(":") for each in files)}
    found = {}
    for key, value in one["environment"].items():
        text = interpolated(value, env).replace("/run/secrets", str(folder / "secrets"))
        for target, source in mounts.items():
            text = text.replace(target, str((ROOT / source) if source.startswith("./") else Path(source)))
        found[key] = text
    return found


def settings_of(name: str, folder: Path, env: dict[str, str], patch: pytest.MonkeyPatch) -> Config:
    for key, value in environment_of(name, folder, env).items():
        patch.setenv(key, value)
    patch.setenv("FLEETPULSE_DATA_DIR", str(folder / "data"))
    return load({})


@pytest.mark.parametrize("name", SERVICES)
def test_a_composed_service_has_settings_that_are_taken(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With nothing in ``.env``: a login, example prices, and no rules or budgets but the shipped ones."""
    config = settings_of(name, tmp_path, {}, monkeypatch)

    assert config.kafka.sasl_password is not None
    if name not in EDGE:
        assert config.prices is not None
        assert prices.load(config.prices).example
    assert (config.rules, config.budgets) == (None, None)


@pytest.mark.parametrize("name", sorted(set(SERVICES) - EDGE))
def test_files_of_yours_reach_every_composed_service(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder and three names in ``.env``: jobs bill and judge by them, and the dashboard shows the same."""
    (tmp_path / "p.yaml").write_text("gpu_hour: [{gpu: H100, periods: [{from: 2026-01-01, value: 3 USD/GPU-hour}]}]")
    (tmp_path / "r.yaml").write_text("slo_classes: {interactive: {ttft: 800ms, share: 99%}}")
    (tmp_path / "b.yaml").write_text("budgets: [{name: fleet, amount: 60000 USD}]")
    inside = {f"FLEETPULSE_{key}": f"/etc/fleetpulse/{key[0].lower()}.yaml" for key in ("PRICES", "RULES", "BUDGETS")}

    config = settings_of(name, tmp_path, {"FLEETPULSE_FILES": str(tmp_path), **inside}, monkeypatch)

    assert config.prices is not None
    assert config.rules is not None
    assert config.budgets is not None
    assert not prices.load(config.prices).example
    assert [one.name for one in rules.load_set(config.rules).slo_classes] == ["interactive"]
    assert [one.name for one in budgets.load(config.budgets).budgets] == ["fleet"]


def test_what_an_image_copies_reaches_its_build() -> None:
    """Every file and folder of a stage exists, and ``.dockerignore`` lets it in: the simulator's as well."""
    copied = re.findall(r"^COPY (?!--from)(.*) \S+$", (ROOT / "deploy" / "Dockerfile").read_text(), re.MULTILINE)
    sources = {source for line in copied for source in line.split()}
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    let_in = {line.removeprefix("!") for line in ignored if line.startswith("!")}

    assert ignored[0] == "*"
    assert "lab" in sources
    assert {source for source in sources if not (ROOT / source).exists()} == set()
    assert {source for source in sources if source.split("/")[0] not in let_in} == set()


@pytest.mark.parametrize("name", [name for name, one in SERVICES.items() if one["command"][0] == "jobs"])
def test_a_composed_job_is_started_again_by_its_script(name: str, tmp_path: Path) -> None:
    """After exit 70 with the same words, in the container; any other end is the container's."""
    tool, log = tmp_path / "fleetpulse", tmp_path / "log"
    tool.write_text(f'#!/bin/sh\necho "$@" >> {log}\n[ "$(wc -l < {log})" -gt 1 ] && exit 0\nexit 70\n')
    tool.chmod(0o755)
    one = SERVICES[name]
    mounts = {target: ROOT / source for source, target, *_ in (each.rsplit(":", 2) for each in one["volumes"])}
    script = shlex.quote(str(mounts["/run-job.sh"]))
    entry = [word.replace("$$", "$").replace("/run-job.sh", script) for word in one["entrypoint"]]

    done = subprocess.run(
        [*entry, *one["command"]],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin", "RESTART_AFTER_S": "0"},
        check=False,
        timeout=30,
    )

    assert done.returncode == 0
    assert log.read_text().splitlines() == [" ".join(one["command"])] * 2
