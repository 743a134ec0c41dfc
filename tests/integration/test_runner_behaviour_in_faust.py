"""The behaviour suite of the runner in a Faust worker, on a real broker with real processes."""

from __future__ import annotations

import pytest

from tests.integration.runner_behaviour import Behaviour

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]


class TestInAFaustWorker(Behaviour):
    shell = "faust"
