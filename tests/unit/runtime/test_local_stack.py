import errno
import json
import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from runtime.live_process import Process
from runtime.local_stack import (
    FILE_NAME,
    Ports,
    StackState,
    default_data_dir,
    read_state,
    write_state,
)
from schemas.errors import StackError


def state(data_dir: Path) -> StackState:
    return StackState(
        data_dir,
        "cluster",
        Ports(1, 2, 3, 4),
        "writer-secret",
        "reader-secret",
        True,
        {"kafka": Process(7, "boot:1")},
    )


def test_what_was_written_is_read(tmp_path: Path) -> None:
    """State survives the way through the file."""
    write_state(state(tmp_path))

    assert read_state(tmp_path) == state(tmp_path)


def test_a_moved_folder_keeps_its_state(tmp_path: Path) -> None:
    """The file does not remember where it lay."""
    (tmp_path / "old").mkdir()
    write_state(state(tmp_path / "old"))
    (tmp_path / "old").rename(tmp_path / "new")

    assert read_state(tmp_path / "new") == replace(state(tmp_path), data_dir=tmp_path / "new")


def test_only_the_owner_reads_the_passwords(tmp_path: Path) -> None:
    """The file has mode 0600 and nothing is left beside it."""
    write_state(state(tmp_path))

    assert stat.S_IMODE((tmp_path / FILE_NAME).stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == [FILE_NAME]


def test_nothing_is_left_of_a_state_that_could_not_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would hold the passwords. What was there stays."""
    write_state(state(tmp_path))

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_state(replace(state(tmp_path), cluster_id="another"))

    assert [path.name for path in tmp_path.iterdir()] == [FILE_NAME]
    assert read_state(tmp_path) == state(tmp_path)


def test_passwords_stay_out_of_a_repr(tmp_path: Path) -> None:
    """A state in a log or a traceback shows no secret."""
    assert "secret" not in repr(state(tmp_path))


def test_no_file_means_there_never_was_a_stack(tmp_path: Path) -> None:
    """A missing file is no error."""
    assert read_state(tmp_path) is None


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("{", id="cut off"),
        pytest.param("[]", id="a list"),
        pytest.param("{}", id="no version"),
        pytest.param(json.dumps({"version": 99}), id="another version"),
        pytest.param(json.dumps({"version": 1, "ports": {"kafka": 1}, "processes": {}}), id="ports missing"),
        pytest.param(json.dumps({"version": 1, "ports": 3, "processes": {}}), id="ports no object"),
    ],
)
def test_a_file_that_is_no_state_is_named(tmp_path: Path, text: str) -> None:
    """The error names the file and what to do."""
    (tmp_path / FILE_NAME).write_text(text)

    with pytest.raises(StackError, match=r"stack\.json.*move .* away"):
        read_state(tmp_path)


def test_addresses_are_on_loopback(tmp_path: Path) -> None:
    """Clients connect to this machine alone."""
    assert state(tmp_path).kafka_bootstrap == "127.0.0.1:1"
    assert state(tmp_path).clickhouse_url == "http://127.0.0.1:3"


def test_a_stack_of_several_nodes_names_all_of_them(tmp_path: Path) -> None:
    """Also after the way through the file."""
    several = replace(state(tmp_path), brokers=2, shards=3, further=(Ports(5, 6, 7, 8), Ports(9, 10, 11, 12)))
    write_state(several)

    assert read_state(tmp_path) == several
    assert several.kafka_bootstrap == "127.0.0.1:1,127.0.0.1:5"
    assert several.clickhouse_urls == ("http://127.0.0.1:3", "http://127.0.0.1:7", "http://127.0.0.1:11")
    assert (several.clickhouse_cluster, state(tmp_path).clickhouse_cluster) == ("fleetpulse", "")


def test_processes_of_0_1_0_read_a_stack_of_one_node(tmp_path: Path) -> None:
    """An upgrade goes worker by worker: the file has no key that they do not know."""
    write_state(state(tmp_path))

    known = {"version", "cluster_id", "ports", "writer_password", "reader_password", "wanted", "processes"}
    assert set(json.loads((tmp_path / FILE_NAME).read_text())) == known


def test_the_environment_decides_where_the_stack_lives(tmp_path: Path) -> None:
    """FLEETPULSE_DATA_DIR comes before everything."""
    (tmp_path / ".fleetpulse").mkdir()

    assert default_data_dir({"FLEETPULSE_DATA_DIR": "/some/where"}, tmp_path) == Path("/some/where")


def test_a_folder_that_has_a_stack_keeps_it(tmp_path: Path) -> None:
    """An existing .fleetpulse here is used."""
    (tmp_path / ".fleetpulse").mkdir()

    assert default_data_dir({"XDG_DATA_HOME": "/data"}, tmp_path) == tmp_path / ".fleetpulse"


def test_a_checkout_keeps_its_stack_to_itself(tmp_path: Path) -> None:
    """In a checkout of the project the stack lives in it."""
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "fleetpulse"\n')

    assert default_data_dir({"XDG_DATA_HOME": "/data"}, tmp_path) == tmp_path / ".fleetpulse"


def test_anywhere_else_the_stack_lives_in_the_users_data_folder(tmp_path: Path) -> None:
    """Another project's folder is left alone."""
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "other"\n')

    assert default_data_dir({"XDG_DATA_HOME": "/data"}, tmp_path) == Path("/data/fleetpulse")
