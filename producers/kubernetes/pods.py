"""A ``PodList`` of Kubernetes, read: what the agent needs of each pod. Pure.

Source: Kubernetes API reference, core/v1 PodList, as the API server and the kubelet's ``/pods`` answer it. A static pod
has another UID on its node than in the API: there it is the hash in ``kubernetes.io/config.hash``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from schemas.errors import FleetpulseError

STATIC_UID = "kubernetes.io/config.hash"
OURS = "fleetpulse-"
"""Annotations and labels that are ours begin so."""


class PodListError(FleetpulseError):
    """What came back is no list of pods."""

    retriable = True


@dataclass(frozen=True, slots=True)
class Container:
    """``container_id``: 64 hex digits, None before it runs. ``ports``: by name, or by number where they have none.
    ``host_ports``: those of the host that lead to one of its own, by that."""

    name: str
    image: str
    container_id: str | None = None
    ports: Mapping[str, int] = field(default_factory=dict)
    host_ports: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Pod:
    """``marks``: annotations and labels that begin with ``fleetpulse-``, without that; annotations count more.
    ``terminating``: it is to end, and where it is ``running`` still it serves what it has begun."""

    uid: str
    name: str
    namespace: str
    ip: str | None = None
    running: bool = False
    terminating: bool = False
    host_network: bool = False
    static_uid: str | None = None
    marks: Mapping[str, str] = field(default_factory=dict)
    containers: tuple[Container, ...] = ()


def pods_of(body: bytes, pods_max: int) -> tuple[tuple[Pod, ...], int]:
    """The pods in order of namespace and name, no more than ``pods_max``, and how many were left out: those beyond it,
    and what is no pod. Raises ``PodListError``."""
    try:
        items = orjson.loads(body)["items"] or []
    except (ValueError, KeyError, TypeError) as error:
        raise PodListError(f"no list of pods: {body[:80]!r}") from error
    if not isinstance(items, list):
        raise PodListError(f"no list of pods: {body[:80]!r}")
    found = sorted((pod for item in items for pod in _pod(item)), key=lambda pod: (pod.namespace, pod.name))
    return tuple(found[:pods_max]), len(items) - len(found[:pods_max])


def _pod(item: Any) -> Iterator[Pod]:
    """None where it lacks what every pod has."""
    about, spec, status = (_table(_table(item).get(part)) for part in ("metadata", "spec", "status"))
    uid, name, namespace = (_text(about.get(part)) for part in ("uid", "name", "namespace"))
    if uid and name and namespace:
        annotations = _table(about.get("annotations"))
        yield Pod(
            uid=uid,
            name=name,
            namespace=namespace,
            ip=_text(status.get("podIP")),
            running=status.get("phase") == "Running",
            terminating="deletionTimestamp" in about,
            host_network=spec.get("hostNetwork") is True,
            static_uid=_text(annotations.get(STATIC_UID)),
            marks=_marks(_table(about.get("labels"))) | _marks(annotations),
            containers=tuple(_containers(spec, status)),
        )


def _containers(spec: Mapping[str, Any], status: Mapping[str, Any]) -> Iterator[Container]:
    ids = {_text(each.get("name")): _text(each.get("containerID")) for each in _tables(status.get("containerStatuses"))}
    for each in _tables(spec.get("containers")):
        name = _text(each.get("name")) or ""
        id = (ids.get(name) or "").rpartition("://")[2] or None
        ports = list(_ports(each))
        named = {label or str(number): number for label, number, _ in ports}
        of_host = {number: outside for _, number, outside in ports if outside is not None}
        yield Container(name, _text(each.get("image")) or "", id, named, of_host)


def _ports(container: Mapping[str, Any]) -> Iterator[tuple[str | None, int, int | None]]:
    """Name, number, and the host's port that leads there."""
    for each in _tables(container.get("ports")):
        number = _port(each.get("containerPort"))
        if number is not None and each.get("protocol", "TCP") == "TCP":
            yield _text(each.get("name")), number, _port(each.get("hostPort"))


def _port(value: Any) -> int | None:
    return value if isinstance(value, int) and 0 < value < 65_536 else None


def _marks(texts: Mapping[str, Any]) -> dict[str, str]:
    found = {name.removeprefix(OURS): _text(value) for name, value in texts.items() if name.startswith(OURS)}
    return {name: value for name, value in found.items() if value is not None}


def _table(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _tables(value: Any) -> list[Mapping[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
