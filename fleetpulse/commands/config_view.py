"""The configuration as people look at it: every setting, its value, where it came from; and keys nobody knows. Pure.

Names are dotted (``kafka.bootstrap``, ``agent.engines.0.url``). Secrets are shown as ``***``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from difflib import get_close_matches
from typing import Any, get_args, get_origin

from pydantic import BaseModel, SecretStr

from runtime.config import Config
from runtime.config_keys import alternatives, known_keys

HIDDEN = "***"
PREFIX = "FLEETPULSE_"
_OTHERS = (
    "CACHE_DIR", "CHILD_OF", "CLICKHOUSE_HOST", "CLICKHOUSE_PORT", "CLICKHOUSE_SECURE", "CLUSTER_ID", "COMPILED",
    "DASHBOARD_ALLOWED_HOSTS", "DASHBOARD_LOGIN_HEADER", "DASHBOARD_TOKEN", "DASHBOARD_TOKEN_FILE",
    "DASHBOARD_TRUSTED_PROXIES", "DASHBOARD_USERS_FILE", "DEPLOYMENT", "ENGINE_ID", "FILES", "HOST", "KILLS", "PRICES",
    "PROMETHEUS_URL", "SERVICE", "SOCKET", "UPSTREAM", "VERSION",
)  # fmt: skip
NOT_SETTINGS = frozenset(f"{PREFIX}{name}" for name in _OTHERS)
"""Variables of the SDK, the stack, Compose and tests; every name beginning with ``FLEETPULSE_TEST_`` too."""
Layers = Sequence[tuple[str, Mapping[str, Any]]]


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting. ``source``: ``flag``, ``environment``, ``file``, ``stack`` or ``default``."""

    name: str
    value: Any
    source: str


@dataclass(frozen=True, slots=True)
class Unknown:
    """A key that is no setting. ``nearest``: the setting it may have meant, spelt for its place."""

    name: str
    place: str
    nearest: str | None

    @property
    def key(self) -> str:
        """The key as an error names it, wherever it stands."""
        return self.name.removeprefix(PREFIX).replace("__", ".").lower() if self.place == "environment" else self.name


def settings_of(config: Config, layers: Layers) -> list[Setting]:
    """Every setting of the tree in its order, down to single values."""
    return [Setting(".".join(path), value, _source(path, layers)) for path, value in _leaves(config, ())]


def _leaves(value: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    inner = _inner(value)
    if inner:
        for name, below in inner.items():
            yield from _leaves(below, (*path, name))
    else:
        yield path, _shown(value)


def _inner(value: Any) -> Mapping[str, Any] | None:
    """What is below a value; None below a single one."""
    if isinstance(value, BaseModel):
        return {name: getattr(value, name) for name in type(value).model_fields}
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(name): below for name, below in value.items()}
    if isinstance(value, tuple | list) and any(_inner(one) for one in value):
        return {str(index): below for index, below in enumerate(value)}
    return None


def _shown(value: Any) -> Any:
    """A single value as JSON has it; secrets hidden; None where there is none."""
    if isinstance(value, SecretStr):
        return HIDDEN if value.get_secret_value() else None
    if isinstance(value, tuple | list):
        return [_shown(one) for one in value]
    if isinstance(value, BaseModel | Mapping):
        return {}
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _source(path: Sequence[str], layers: Layers) -> str:
    return next((name for name, tree in layers if _given(tree, path)), "default")


def _given(tree: Any, path: Sequence[str]) -> bool:
    """Whether the tree says this value, or the file it is read from."""
    at = tree
    for place, name in enumerate(path):
        if isinstance(at, BaseModel | str):
            return True
        if isinstance(at, Sequence):
            if not name.isdecimal() or int(name) >= len(at):
                return False
            at = at[int(name)]
            continue
        if not isinstance(at, Mapping):
            return True
        if name not in at:
            return place == len(path) - 1 and f"{name}_file" in at
        at = at[name]
    return True


def unknown_keys(layers: Layers, environment: Mapping[str, str]) -> list[Unknown]:
    """Keys of the file, and variables beginning with ``FLEETPULSE_``, that no setting has."""
    found = [one for name, tree in layers if name == "file" for one in _unknown(tree, Config, (), name)]
    found += [one for name, tree in layers if name == "environment" for one in _unknown(tree, Config, (), name)]
    tops = [name.upper() for name in Config.model_fields]
    for variable in sorted(environment):
        if not variable.startswith(PREFIX) or variable in NOT_SETTINGS or variable.startswith(f"{PREFIX}TEST_"):
            continue
        top, _, rest = variable.partition("__")
        if top.removeprefix(PREFIX) not in tops:
            found.append(Unknown(variable, "environment", _nearest_variable(top, rest, tops)))
    return found


def _nearest_variable(top: str, rest: str, tops: Sequence[str]) -> str | None:
    near = get_close_matches(top.removeprefix(PREFIX), tops, n=1, cutoff=0.5)
    if not near:
        return None
    return f"{PREFIX}{near[0]}__{rest}" if rest else PREFIX + near[0]


def _unknown(tree: Any, kind: Any, path: tuple[str, ...], place: str) -> Iterator[Unknown]:
    for below in alternatives(kind):
        if isinstance(tree, Mapping) and (known := known_keys(below)) is not None:
            yield from _unknown_below(tree, known, path, place)
            return
        if get_origin(below) is dict and isinstance(tree, Mapping):
            for name, value in tree.items():
                yield from _unknown(value, get_args(below)[1], (*path, str(name)), place)
            return
        if get_origin(below) is tuple and isinstance(tree, Sequence) and not isinstance(tree, str):
            for index, value in enumerate(tree):
                yield from _unknown(value, get_args(below)[0], (*path, str(index)), place)
            return


def _unknown_below(
    tree: Mapping[str, Any], known: Mapping[str, Any], path: tuple[str, ...], place: str
) -> Iterator[Unknown]:
    for name, value in tree.items():
        kind = known.get(name, known.get(name.removesuffix("_file")))
        if kind is not None:
            yield from _unknown(value, kind, (*path, name), place)
            continue
        near = get_close_matches(name, known, n=1, cutoff=0.5)
        nearest = _spelt((*path, near[0]), place) if near else None
        yield Unknown(_spelt((*path, name), place), place, nearest)


def _spelt(path: Sequence[str], place: str) -> str:
    if place == "environment":
        return PREFIX + "__".join(path).upper()
    return ".".join(path)
