"""What a process does before it lands its first batch."""

from __future__ import annotations

import subprocess
import sys

_SETTLED = """
import gc
from runtime.process import RARELY
from sinks.warm import warm
from schemas.codec import native_fill
warm()
assert native_fill.fill.signatures, "nothing was loaded"
assert gc.get_threshold() == RARELY
assert gc.get_freeze_count() > 0
"""


def test_a_warm_process_has_landed_an_event_and_searches_for_cycles_rarely() -> None:
    """In a process of its own: it is changed for good."""
    done = subprocess.run([sys.executable, "-c", _SETTLED], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
