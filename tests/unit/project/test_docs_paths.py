"""Documents name only files that exist."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[3]
SUFFIXES = {".py", ".md", ".toml", ".yaml", ".yml", ".sql", ".json", ".sh", ".lock", ".txt"}
NOT_OURS = {
    "dashboard_users.json",  # in the data directory
    "dashboard-users.json",  # the same, in a secret
    "fleetpulse.toml",
    "engines.json",
    "config.yaml",
    "config.json",
    "fleetpulse_callback.py",
    "my-*.yaml",
    "h100.json",
    "rules.yaml",
    "prices.yaml",
    "budgets.yaml",
    "list_prices.json",
    "model_prices*.json",
    "kafka-consumer-groups.sh",
    "kafka-leader-election.sh",
    "deploy/secrets/*",
    "vllm/*",
    "fleetpulse-*.whl",
    "/*",
}
"""Files of an installation, what a build makes, or another project's."""


def repository() -> set[str]:
    """Every tracked file and every folder that holds one."""
    listing = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    files = [PurePosixPath(name) for name in listing.splitlines() if (ROOT / name).exists()]
    return {str(path) for file in files for path in (file, *file.parents)}


def documents() -> list[Path]:
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def paths_in(text: str, top: set[str]) -> Iterator[str]:
    """Words within single backticks that look like a path of the repository: below one of its folders, or a file."""
    prose = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    for quoted in re.findall(r"`([^`\n]+)`", prose):
        for word in quoted.split():
            path = re.sub(r":\d+$", "", word).removeprefix("./").rstrip("/")
            if re.fullmatch(r"[\w.*/-]+", path) and (
                ("/" in path and path.partition("/")[0] in top) or PurePosixPath(path).suffix in SUFFIXES
            ):
                yield path


def test_every_path_in_a_document_exists() -> None:
    """From the root of the repository, in full; a star stands for any name."""
    known = repository()
    top = {name for name in known if "/" not in name}
    missing = [
        f"{document.relative_to(ROOT)}: {path}"
        for document in documents()
        for path in paths_in(document.read_text(), top)
        if not any(fnmatchcase(path, pattern) for pattern in NOT_OURS)
        and not any(fnmatchcase(name, path) for name in known)
    ]

    assert missing == []


def test_a_path_is_found_in_prose_and_in_commands_but_not_in_code() -> None:
    """What the rule above looks at."""
    text = (
        "`schemas/gone.py:12` and `python deploy/x/`, `limits.py`, `/readyz`, `a/b`\n```\nschemas/no.py `x.py`\n```\n"
    )

    assert list(paths_in(text, {"schemas", "deploy"})) == ["schemas/gone.py", "deploy/x", "limits.py"]
