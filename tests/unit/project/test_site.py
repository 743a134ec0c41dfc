"""The pages of docs/ as a site: every page in its navigation, every link and anchor right."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_the_site_builds_without_a_warning_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    """``mkdocs build --strict``; scripts, styles and pictures of each page are its own."""
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    pages = list((tmp_path / "site").rglob("index.html"))
    foreign = [
        (page, found)
        for page in pages
        for found in re.findall(r'<(?:script|img|iframe)[^>]*src="(https?:[^"]*)"', page.read_text())
    ]

    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    assert len(pages) == len(list((ROOT / "docs").rglob("*.md")))
    assert foreign == []
