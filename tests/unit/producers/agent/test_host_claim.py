from __future__ import annotations

import os
import secrets
import subprocess
import sys

import pytest

from producers.agent import host_claim
from producers.agent.host_claim import HostClaim
from runtime.counters import Counters

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="abstract sockets are Linux's")


def test_a_second_agent_of_a_host_is_named_until_the_first_ends(caplog: pytest.LogCaptureFixture) -> None:
    """By its process, in log (once), gauge and readiness; then the second has the host."""
    host, counters = f"h-{secrets.token_hex(6)}", Counters()
    first, second = HostClaim(host, Counters()), HostClaim(host, counters)
    first.look()
    for _ in range(3):
        second.look()
    found = (second.other, counters.value("agent_others"), second.why)
    first.release()
    second.look()
    after = (second.other, counters.value("agent_others"), second.why)
    first.look()
    second.release()

    assert first.why is not None
    assert found == (
        os.getpid(),
        1,
        f"another agent runs on {host} (process {os.getpid()}): samples are counted twice",
    )
    assert after == (None, 0, None)
    assert [each.__dict__["pid"] for each in caplog.records] == [os.getpid()] * 2


def test_a_host_is_free_when_its_agent_was_killed() -> None:
    """The kernel lets it go with the process."""
    host = f"h-{secrets.token_hex(6)}"
    claims = f"from producers.agent.host_claim import HostClaim; claim = HostClaim({host!r}); claim.look()"
    program = f"{claims}; print(1, flush=True); input()"
    holder = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "1\n"
    claim = HostClaim(host, Counters())
    claim.look()
    while_it_runs = claim.other
    holder.kill()
    holder.communicate()
    claim.look()
    claim.release()

    assert (while_it_runs, claim.other) == (holder.pid, None)


def test_a_process_of_another_user_is_no_agent(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is named in the log, once; root's is one."""
    host, counters, uid = f"h-{secrets.token_hex(6)}", Counters(), os.geteuid() + 5
    holder, claim = HostClaim(host, Counters()), HostClaim(host, counters)
    holder.look()
    owner = [(7, uid)]
    monkeypatch.setattr(host_claim, "_owner", lambda _: owner[0])
    for _ in range(2):
        claim.look()
    found = (claim.other, claim.why, counters.value("agent_others"))
    owner[0] = (8, 0)
    claim.look()
    holder.release()

    assert found == (None, None, 0)
    assert claim.other == 8
    assert [(each.__dict__["pid"], each.__dict__["uid"]) for each in caplog.records] == [(7, uid), (8, 0)]


def test_agents_of_two_hosts_do_not_meet() -> None:
    """Containers on one machine may each be a host."""
    one, two = (HostClaim(f"h-{secrets.token_hex(6)}", Counters()) for _ in range(2))
    one.look()
    two.look()
    one.release()
    two.release()

    assert (one.other, two.other) == (None, None)
