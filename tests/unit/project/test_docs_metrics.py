"""Documents name metrics as Prometheus sees them."""

from __future__ import annotations

import re
from pathlib import Path

from runtime.counters import PREFIX, exported_name
from runtime.metric_catalogue import CATALOGUE

ROOT = Path(__file__).resolve().parents[3]
ALSO_RULES = {"requests_without_engine"}
"""Names inside that are names of alert rules, too."""
SERVED = {f"{PREFIX}{exported_name(one.name)}{'_total' if one.kind == 'counter' else ''}" for one in CATALOGUE.values()}
INSIDE = {name for name in CATALOGUE if "_" in name} - ALSO_RULES
FAMILIES = {f"{PREFIX}{name.partition('_')[0]}_" for name in INSIDE} - {f"{PREFIX}process_"}
"""What served names begin with: other words that begin with ``fleetpulse_`` are modules and labels."""


def _words() -> list[tuple[str, str]]:
    """Document and word, of what begins like a metric within backticks; labels in braces may follow it."""
    return [
        (path.relative_to(ROOT).as_posix(), word)
        for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
        for word in re.findall(r"`([a-z]+_[a-z_]*[a-z])(?=[`{ ])", path.read_text())
    ]


def test_documents_name_metrics_as_they_are_served() -> None:
    """None by its name inside, and none that no process serves."""
    words = _words()

    assert [found for found in words if found[1] in INSIDE] == []
    assert [found for found in words if found[1].startswith(tuple(FAMILIES)) and found[1] not in SERVED] == []
