"""The systemd units: what each service is started with, may do and is given to stop. Read as text, run by nobody."""

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fleetpulse.cli import app
from fleetpulse.services.edge import DRAIN_S
from fleetpulse.services.jobs_and_sink import JOBS
from runtime.edge_config import AgentConfig
from runtime.proxy_config import ProxyConfig

ROOT = Path(__file__).resolve().parents[3]
UNITS = ROOT / "deploy" / "systemd"
NAMES = sorted(path.name for path in UNITS.glob("*.service"))
OF_THE_AGENT = {
    "RestrictAddressFamilies",
    "PrivateDevices",
    "ProtectProc",
    "CapabilityBoundingSet",
    "AmbientCapabilities",
}
"""What is otherwise for the agent: it reads GPUs, interfaces and the processes of others."""
SOCKET_GROUP = ("SystemCallFilter", "@chown")
"""A line that the agent has beyond the others'."""


def settings(path: Path) -> list[tuple[str, str]]:
    """Key and value of every line, in order."""
    lines = [line for line in path.read_text().splitlines() if "=" in line and not line.startswith("#")]
    return [(key, value) for key, _, value in (line.partition("=") for line in lines)]


def hardening(path: Path) -> list[tuple[str, str]]:
    """What confines the process, in order."""
    pairs = settings(path)
    first = next(place for place, (key, _) in enumerate(pairs) if key == "NoNewPrivileges")
    confining = [pair for pair in pairs[first:] if pair[0] not in ("WantedBy", "DevicePolicy", "DeviceAllow")]
    return [pair for pair in confining if pair[0] not in OF_THE_AGENT and pair != SOCKET_GROUP]


def test_every_service_has_a_unit() -> None:
    """Jobs as instances of one, everything else that runs for long by itself."""
    assert [
        f"fleetpulse-{name}.service" for name in ("agent", "dashboard", "deliver", "export", "jobs@", "proxy", "sink")
    ] == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_unit_starts_a_command_that_exists_with_options_that_exist(name: str) -> None:
    """As the command's own help has them; a health port is among them."""
    (start,) = [value for key, value in settings(UNITS / name) if key == "ExecStart"]
    program, *words = shlex.split(start)
    command = [word for word in words if re.fullmatch(r"[a-z]+", word)]
    options = [word for word in words if word.startswith("--")]

    shown = CliRunner().invoke(app, [*command, "--help"], env={"COLUMNS": "200", "NO_COLOR": "1"})

    assert program == "/opt/fleetpulse/bin/fleetpulse"
    assert shown.exit_code == 0
    assert [option for option in options if option not in shown.output] == []
    assert "--health-port" in options


def test_no_two_services_of_a_host_have_one_health_port() -> None:
    """Every job its own; a job that has no drop-in takes any port that is free."""
    ports = re.findall(r"--health-port (\d+)", "".join((UNITS / name).read_text() for name in NAMES))
    jobs = {name: dict(settings(UNITS / f"fleetpulse-jobs@{name}.service.d" / "instance.conf")) for name in JOBS}
    ports += [one["Environment"].removeprefix("HEALTH_PORT=") for one in jobs.values()]

    assert len(ports) == len(NAMES) - 1 + len(JOBS)
    assert len(set(ports)) == len(ports)
    assert sorted(path.name for path in UNITS.glob("*.d")) == sorted(
        f"fleetpulse-jobs@{name}.service.d" for name in JOBS
    )
    assert {name for name, one in jobs.items() if one.get("CPUWeight") == "25"} == {"windows", "costs"}


@pytest.mark.parametrize("name", NAMES)
def test_a_unit_comes_back_and_writes_its_own_folders_alone(name: str) -> None:
    """Restarted as often as it takes, an ordinary user, memory bounded but of the proxy, whose streams are clients'.
    Users of dashboard and proxy, which people talk to, are their own: one user's processes read each other's
    secrets."""
    pairs = settings(UNITS / name)
    one = dict(pairs)

    unit = name.removesuffix(".service")
    user = unit if unit in ("fleetpulse-dashboard", "fleetpulse-proxy") else "fleetpulse"
    assert (one["StartLimitIntervalSec"], one["RestartSec"], one["User"]) == ("0", "2", user)
    assert one["Group"] == "fleetpulse"
    assert one["Restart"] == (
        "always" if name.split("-")[1].split(".")[0] in ("agent", "proxy", "jobs@") else "on-failure"
    )
    assert one.get("RestartPreventExitStatus", "2" if one["Restart"] == "always" else "") == "2"
    assert (one["NoNewPrivileges"], one["ProtectSystem"]) == ("yes", "strict")
    assert ("MemoryMax" in one) == (name != "fleetpulse-proxy.service")
    written = {value.partition("=")[2] for key, value in pairs if key == "Environment" and "_DIR=" in value}
    kept = {f"/var/lib/{one['StateDirectory']}", f"/var/cache/{one.get('CacheDirectory', '')}"}
    assert written <= kept


def test_units_confine_alike() -> None:
    """The same lines in the same order; the agent alone sees devices, the processes of others and two capabilities."""
    wanted = hardening(UNITS / "fleetpulse-proxy.service")

    assert len(wanted) > 15
    assert {name: hardening(UNITS / name) for name in NAMES} == dict.fromkeys(NAMES, wanted)
    for name in NAMES:
        one = dict(settings(UNITS / name))
        if name == "fleetpulse-agent.service":
            assert one["DevicePolicy"] == "closed"
            assert one.keys() & {"PrivateDevices", "ProtectProc"} == set()
        else:
            assert (one["PrivateDevices"], one["ProtectProc"], one["CapabilityBoundingSet"]) == ("yes", "invisible", "")


def test_the_agent_alone_may_give_its_socket_to_a_group() -> None:
    """What is allowed again comes after what is taken; no capability goes with it."""
    filters = {name: [value for key, value in settings(UNITS / name) if key == "SystemCallFilter"] for name in NAMES}
    wanted = ["@system-service", "~@privileged @resources"]

    assert filters.pop("fleetpulse-agent.service") == [*wanted, SOCKET_GROUP[1]]
    assert filters == dict.fromkeys(filters, wanted)
    assert "CAP_CHOWN" not in (UNITS / "fleetpulse-agent.service").read_text()


def test_gpus_whose_driver_comes_after_the_agent_are_read() -> None:
    """By the number that the kernel keeps for them; systemd looks a name up once, when the unit starts."""
    devices = [value for key, value in settings(UNITS / "fleetpulse-agent.service") if key == "DeviceAllow"]

    assert devices[0] == "char-195 rw"
    assert {"char-nvidia rw", "char-nvidiactl rw", "char-nvidia-caps rw"} <= set(devices)


def test_the_driver_is_loaded_before_the_agent_starts() -> None:
    """Else numbers that the kernel gives out as they come (MIG's ``nvidia-caps``) are not known, and stay forbidden."""
    first = dict(settings(UNITS / "fleetpulse-agent.service"))

    assert "modprobe@nvidia.service" in first["Wants"].split()
    assert "modprobe@nvidia.service" in first["After"].split()


@pytest.mark.parametrize("name", NAMES)
def test_no_secret_stands_in_a_unit_and_its_variables_are_known(name: str) -> None:
    """Secrets come from files that systemd reads as root."""
    pairs = settings(UNITS / name)
    names = [word.partition("=")[0] for key, value in pairs if key == "Environment" for word in value.split()]
    ours = {each for each in names if each.startswith("FLEETPULSE_")}

    assert {key for key, _ in pairs} >= {"EnvironmentFile"}
    assert [each for each in names if re.search("PASSWORD|TOKEN|SECRET", each)] == []
    assert ours <= {f"FLEETPULSE_{each}" for each in ("CONFIG_FILE", "DATA_DIR", "AGENT__RECEIVER__SOCKET")}


def test_the_dashboard_is_given_nothing_of_the_writer() -> None:
    """The file that the others share may hold the writer's password."""
    pairs = settings(UNITS / "fleetpulse-dashboard.service")

    assert [value for key, value in pairs if key == "EnvironmentFile"] == ["-/etc/fleetpulse/dashboard.environment"]


def test_every_unit_lets_its_service_end_in_order() -> None:
    """The agent sends what is spooled, the proxy lets streams end, before systemd ends them."""
    config = ProxyConfig()
    given = {name: int(dict(settings(UNITS / name))["TimeoutStopSec"]) for name in NAMES}

    assert given["fleetpulse-agent.service"] * 1_000 > AgentConfig().drain_ms + 5_000
    assert given["fleetpulse-proxy.service"] > config.grace_s + config.drain_s + DRAIN_S
    assert min(given.values()) > DRAIN_S
    (descriptors,) = [int(value) for key, value in settings(UNITS / "fleetpulse-proxy.service") if key == "LimitNOFILE"]
    assert descriptors > 2 * config.connections_max + 64
