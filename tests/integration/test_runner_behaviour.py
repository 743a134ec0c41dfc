"""The behaviour suite of the runner on a bare loop, on a real broker with real processes."""

from __future__ import annotations

import pytest

from tests.integration.runner_behaviour import Behaviour

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]


class TestOnABareLoop(Behaviour):
    shell = "bare"
