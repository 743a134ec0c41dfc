from pathlib import Path

import pytest

from runtime.config import read_toml
from schemas.errors import ConfigError


def test_tables_become_a_tree(tmp_path: Path) -> None:
    """Sections and keys are kept as they are."""
    (tmp_path / "f.toml").write_text('[kafka]\nbootstrap = "a:1"\n')

    assert read_toml(tmp_path / "f.toml") == {"kafka": {"bootstrap": "a:1"}}


@pytest.mark.parametrize(
    "content",
    [pytest.param(b"[kafka", id="cut off"), pytest.param(b"\xff\xfe", id="not text"), pytest.param(None, id="missing")],
)
def test_what_is_no_toml_is_named(tmp_path: Path, content: bytes | None) -> None:
    """The error names the file."""
    path = tmp_path / "f.toml"
    if content is not None:
        path.write_bytes(content)

    with pytest.raises(ConfigError, match=r"f\.toml"):
        read_toml(path)
