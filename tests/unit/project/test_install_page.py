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
    (wheel, listed), *_ = re.findall(r"'\./(fleetpulse-\S+\.whl)\[([\w,]+)\]'", section)
    sources = [path.read_text() for folder in PRODUCT for path in (ROOT / folder).rglob("*.py")]
    lines = [line for text in sources for line in text.splitlines() if "install.md#extras" in line]
    named = {name for line in lines for pair in re.findall(r"fleetpulse\[(\w+)\]|extra (\w+)", line) for name in pair}

    assert wheel == f"fleetpulse-{PROJECT['version']}-py3-none-any.whl"
    assert set(listed.split(",")) == set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE))
    assert len(lines) == 4
    assert named - {""} == set(listed.split(",")) <= set(PROJECT["optional-dependencies"])
