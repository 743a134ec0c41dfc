import hashlib
import importlib.metadata
import stat
from pathlib import Path
from xml.etree import ElementTree

import pytest

from fleetpulse.stack import clickhouse
from runtime.local_stack import Ports, StackState
from schemas.errors import StackError

PORTS = Ports(21_001, 21_002, 21_003, 21_004)


def config(home: str) -> ElementTree.Element:
    return ElementTree.fromstring(clickhouse.config(PORTS, Path(home)))


def users() -> ElementTree.Element:
    return ElementTree.fromstring(clickhouse.users("writer-secret", "reader-secret"))


def test_the_server_listens_on_loopback_alone() -> None:
    """One address, two ports, no others."""
    tree = config("/d")

    assert [tree.findtext(name) for name in ("listen_host", "http_port", "tcp_port")] == ["127.0.0.1", "21003", "21004"]
    assert sorted(node.tag for node in tree if node.tag.endswith("port")) == ["http_port", "tcp_port"]


@pytest.mark.parametrize("home", ["/a b", "/a&b", "/a<b>"])
def test_any_folder_name_survives_the_file_format(home: str) -> None:
    """Spaces and characters that mean something in XML."""
    assert config(home).findtext("users_config") == f"{home}/users.xml"


def test_passwords_are_stored_as_hashes() -> None:
    """The file holds what the server needs to check, not what a client needs to log in."""
    text = clickhouse.users("writer-secret", "reader-secret")

    assert "secret" not in text
    assert users().findtext("users/reader/password_sha256_hex") == hashlib.sha256(b"reader-secret").hexdigest()


def test_nobody_else_looks_into_its_folder(tmp_path: Path) -> None:
    """Though that which it is in was there before, open to all: who reads its files needs no password."""
    tmp_path.chmod(0o755)
    clickhouse.prepare(StackState(tmp_path, "c", PORTS, "w", "r"))

    assert stat.S_IMODE((tmp_path / "clickhouse").stat().st_mode) == 0o700


def test_every_user_logs_in_from_this_machine_alone() -> None:
    """Also if somebody forwards the port."""
    networks = {user.tag: [ip.text for ip in user.findall("networks/ip")] for user in users().findall("users/*")}

    assert networks == {name: ["127.0.0.1"] for name in ("default", "fleetpulse", "reader")}


def test_the_passwordless_console_has_one_slot_and_no_rights_to_data() -> None:
    """The session that keeps the server up takes the slot."""
    grants = [query.text for query in users().findall("users/default/grants/query")]

    assert users().findtext("profiles/console/max_sessions_for_user") == "1"
    assert grants == ["GRANT SYSTEM LISTEN ON *.*", "GRANT CREATE TEMPORARY TABLE ON *.*"]


def test_the_reader_reads_one_database() -> None:
    """No other right than to look at fleetpulse."""
    grants = [query.text for query in users().findall("users/reader/grants/query")]

    assert grants == ["GRANT SELECT, dictGet, SHOW ON fleetpulse.*"]


def test_secrets_are_not_on_the_command_line() -> None:
    """Every user of the machine can read command lines."""
    state = StackState(Path("/d"), "c", PORTS, "writer-secret", "reader-secret")

    assert "secret" not in " ".join(clickhouse.command(state))


def test_a_missing_wheel_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the extra."""
    monkeypatch.setattr(clickhouse.importlib.util, "find_spec", lambda _name: None)

    with pytest.raises(StackError, match=r"fleetpulse\[local\]: docs/start/install.md#extras"):
        clickhouse.library()


def test_a_wheel_that_cannot_listen_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """26.5 has no listeners, 26.7 has."""
    monkeypatch.setattr(importlib.metadata, "version", lambda _name: "26.5.3")

    with pytest.raises(StackError, match=r"chdb-core 26\.5\.3 cannot listen"):
        clickhouse.library()


def test_several_servers_know_one_another_by_a_secret() -> None:
    """One alone knows nobody; the secret is that of the stack, and no password."""
    state = StackState(Path("/d"), "c", PORTS, "writer-secret", "r", shards=2, further=(Ports(1, 2, 3, 22_004),))
    text = clickhouse.config(PORTS, Path("/d"), state.nodes, "shared")
    found = ElementTree.fromstring(text).find("remote_servers/fleetpulse")

    assert found is not None
    assert found.findtext("secret") == "shared"
    assert [port.text for port in found.findall("shard/replica/port")] == ["21004", "22004"]
    assert ElementTree.fromstring(clickhouse.config(PORTS, Path("/d"))).find("remote_servers") is None
    assert "REMOTE" in clickhouse.users("w", "r", sharded=True)
    assert "REMOTE" not in clickhouse.users("w", "r")
