"""The install page says how to get each extra that a message of the product names."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PAGE = (ROOT / "docs" / "start" / "install.md").read_text()
PRODUCT = ("runtime", "producers", "stream_jobs", "sinks", "fleetpulse")


def test_extras_that_messages_send_to_the_page_are_there_and_exist() -> None:
    """By the command that installs the wheel of this version with them, in the table too."""
    section = PAGE[PAGE.index("### Extras") : PAGE.index("## Connect it")]
    calls = re.findall(r"'\./(fleetpulse-\S+\.whl)\[([\w,]+)\]'", section)
    listed = {name for _, names in calls for name in names.split(",")}
    sources = [path.read_text() for folder in PRODUCT for path in (ROOT / folder).rglob("*.py")]
    lines = [line for text in sources for line in text.splitlines() if "install.md#extras" in line]
    named = {name for line in lines for pair in re.findall(r"fleetpulse\[(\w+)\]|extra (\w+)", line) for name in pair}

    assert {wheel for wheel, _ in calls} == {f"fleetpulse-{PROJECT['version']}-py3-none-any.whl"}
    assert listed == set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE))
    assert len(lines) == 8
    assert named - {""} == listed <= set(PROJECT["optional-dependencies"])


def test_no_message_sends_to_a_registry_for_an_extra() -> None:
    """Whoever has the wheel would get what somebody else calls so there."""
    sources = {path: path.read_text() for folder in PRODUCT for path in (ROOT / folder).rglob("*.py")}

    assert [path.name for path, text in sources.items() if "install 'fleetpulse[" in text] == []
