"""Findings about this machine, of facts: disk, local stack, Java, ports, passwords lying open. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from shlex import quote

from fleetpulse.doctor.facts import Bounds, CertificateFacts, HostFacts
from fleetpulse.doctor.finding import Finding, good, note, wrong
from fleetpulse.doctor.judge_database import judge_disk
from fleetpulse.stack.report import command_for

HOUR_S, DAY_S = 3_600.0, 86_400.0
RENEWED_BEFORE_S = 14 * DAY_S


def judge_host(facts: HostFacts, bounds: Bounds) -> Iterator[Finding]:
    """Everything about this machine."""
    if facts.disk is not None:
        needed = min(bounds.disk_free_bytes_min, bounds.data_dir_free_share * facts.disk.total_bytes)
        yield judge_disk(f"disk of {facts.data_dir}", facts.disk, needed, "make room, or use a larger disk")
    for path in facts.open_secrets:
        mode = "640" if path in facts.group_secrets else "600"
        mend = f"chmod {mode} {quote(str(path))}"
        yield wrong("secret.file", str(path), "holds passwords and others can read it", mend)
    if facts.stack is None:
        yield note("stack", str(facts.data_dir), "no local stack is wanted here; servers run elsewhere")
        return
    yield from _stack(facts)


def judge_certificates(found: Iterable[CertificateFacts], now_s: float) -> Iterator[Finding]:
    """Every certificate that ends within ``RENEWED_BEFORE_S``, or has ended."""
    for each in found:
        left_s = each.ends_s - now_s
        mend = f"renew it   # {each.key}; `openssl x509 -noout -enddate` prints its end"
        if left_s <= 0:
            yield wrong("certificate", each.place, f"has ended {_days(-left_s)} ago", mend)
        elif left_s < RENEWED_BEFORE_S:
            yield wrong("certificate", each.place, f"ends in {_days(left_s)}", mend)
        else:
            yield good("certificate", each.place, f"ends in {_days(left_s)}")


def _days(seconds: float) -> str:
    return f"{seconds / DAY_S:.0f} days" if seconds >= 2 * DAY_S else f"{seconds / HOUR_S:.0f} hours"


def _stack(facts: HostFacts) -> Iterator[Finding]:
    assert facts.stack is not None
    if facts.java_error is not None:
        mend = "set JAVA_HOME, or install fleetpulse[local]: docs/start/install.md#extras"
        yield wrong("stack.java", "java", facts.java_error, mend)
    else:
        yield good("stack.java", "java", "is new enough")
    up, down = (command_for(words, facts.data_dir) for words in ("up", "down"))
    for part, port in facts.taken:
        says = f"port {port} is taken by another process, {part} needs it"
        yield wrong("stack.port", str(port), says, f"{up} --new-ports")
    for one in facts.stack or ():
        if not one.running:
            yield wrong("stack.part", one.name, "should run and does not", f"{up}   # its log: {one.log}")
        elif not one.ready:
            says = "runs and does not answer"
            yield wrong("stack.part", one.name, says, f"{down} && {up}   # its log: {one.log}")
        else:
            yield good("stack.part", one.name, "runs and answers")
