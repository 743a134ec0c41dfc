"""Sections of the settings, and keys from their types: which exist at a path, and suggestions for a mistyped one."""

from __future__ import annotations

import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from difflib import get_close_matches
from functools import partial
from types import UnionType
from typing import Annotated, Any, Self, get_args, get_origin

from pydantic import AfterValidator, BaseModel, ConfigDict, PrivateAttr, SecretStr, ValidationError

from runtime.addresses import http_address
from runtime.secret_files import read_secret
from schemas.errors import ConfigError


class Section(BaseModel):
    """A section of the configuration: it never changes, takes no unknown key, and its errors show no value."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)
    _unset: str | None = PrivateAttr(default=None)

    @property
    def unset(self) -> str | None:
        """Of a server that was neither configured nor found: where was looked and what to set. Else None."""
        return self._unset

    def demand_set(self, key: str) -> None:
        """Raise ConfigError where the server of this section is not known; ``key`` would name it."""
        if self._unset is not None:
            raise ConfigError(key, None, self._unset)

    def read(self, key: str) -> Self:
        """With what its files hold: of a secret that one part alone needs, ``<secret>_file`` is a setting too, which
        that part reads here. Raises ``ConfigError`` for a file that cannot be read, or for what stands in it; ``key``
        is that of the section."""
        known = type(self).model_fields
        files = {name: path for name in known if (path := getattr(self, f"{name}_file", None)) is not None}
        if not files:
            return self
        given = {name: getattr(self, name) for name in self.model_fields_set if name.removesuffix("_file") not in files}
        secrets = {name: read_secret(f"{key}.{name}_file", path).strip() for name, path in files.items()}
        try:
            return type(self).model_validate(given | secrets)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            at = ".".join(map(str, (key, *first["loc"])))
            raise ConfigError(at, "...", first["msg"].removeprefix("Value error, ")) from None


def http_url(*, path: str = "", instead: str = "") -> AfterValidator:
    """Of a text: what ``http_address`` demands of it."""
    return AfterValidator(partial(http_address, path=path, instead=instead))


def nearest_key(root: Any, path: Sequence[str | int]) -> str | None:
    """The key beside the unknown last one of ``path`` that is spelt most alike; None where none is similar."""
    *above, name = path
    known = [key for kind in _kinds_at(root, above) for key in known_keys(kind) or ()]
    near = get_close_matches(str(name), known, n=1, cutoff=0.5)
    return ".".join(map(str, (*above, near[0]))) if near else None


def is_secret(root: Any, path: Sequence[str | int]) -> bool:
    """Whether a secret stands at this place."""
    return SecretStr in _kinds_at(root, path)


def is_key(root: Any, path: Sequence[str | int]) -> bool:
    """Whether a setting of this name is known at this place."""
    return bool(_kinds_at(root, path))


def holds_section(value: object) -> bool:
    """Whether a value has keys of its own, or is a list of such: among them may be secrets."""
    if isinstance(value, list | tuple):
        return any(map(holds_section, value))
    return isinstance(value, dict | BaseModel)


def holds_secret(root: Any, given: Mapping[str, Any], at: tuple[str | int, ...] = ()) -> bool:
    """Whether a secret stands in the settings as they were given. An address of a target counts where it holds the
    token of a chat service."""
    for name, value in given.items():
        path = (*at, name)
        inner = enumerate(value) if isinstance(value, list) else [(None, value)]
        for index, each in inner:
            below = path if index is None else (*path, index)
            if isinstance(each, dict) and holds_secret(root, each, below):
                return True
        if value and is_secret(root, path) and (name != "endpoint_url" or given.get("kind") == "slack"):
            return True
    return False


def known_keys(kind: Any) -> Mapping[str, Any] | None:
    """Fields with their types of a model or a dataclass; None of anything else."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return {name: field.annotation for name, field in kind.model_fields.items()}
    if isinstance(kind, type) and is_dataclass(kind):
        return typing.get_type_hints(kind)
    return None


def alternatives(kind: Any) -> Iterator[Any]:
    """The types that a value may have, without ``None`` and without annotations."""
    if get_origin(kind) is Annotated:
        yield from alternatives(get_args(kind)[0])
    elif get_origin(kind) in (UnionType, typing.Union):
        for one in get_args(kind):
            yield from alternatives(one)
    elif kind is not type(None):
        yield kind


def _kinds_at(kind: Any, path: Sequence[str | int]) -> list[Any]:
    kinds = list(alternatives(kind))
    for part in path:
        kinds = [inner for one in kinds for inner in alternatives(_below(one, part))]
    return kinds


def _below(kind: Any, part: str | int) -> Any:
    """The type of what stands below a key or an index; NoneType where nothing is known of it."""
    if get_origin(kind) is dict:
        return get_args(kind)[1]
    if get_origin(kind) is tuple:
        return get_args(kind)[0]
    return (known_keys(kind) or {}).get(str(part), type(None))
