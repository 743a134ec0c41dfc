"""Certificates of drills: one that has ended and one that has not, of one authority."""

from __future__ import annotations

import time
from pathlib import Path

from fleetpulse.doctor.look_certificates import _end_of_file
from lab.drills.certificates import HOST, Authority

DAY_S = 86_400


def test_a_certificate_may_have_ended_when_it_is_made(tmp_path: Path) -> None:
    """A day ago, as the doctor reads it; its successor holds, and so does the authority."""
    authority = Authority(tmp_path / "authority")
    authority.issue("ended", host=HOST, days=-1)
    authority.issue("renewed", host=HOST)
    ends = [_end_of_file(tmp_path / "authority" / f"{name}.crt") for name in ("ended", "renewed", "ca")]

    assert [round((end or 0.0) - time.time(), -3) // DAY_S for end in ends] == [-1, 30, 30]
