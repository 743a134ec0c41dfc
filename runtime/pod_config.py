"""Configuration of what the agent asks Kubernetes for: the pods of its node (section ``agent.kubernetes``)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from runtime.config_keys import Section, http_url


class KubernetesConfig(Section):
    """Section ``agent.kubernetes``: where the pods of this node are listed."""

    pods_url: Annotated[str, http_url(path="/path")] | None = None
    """A ``PodList``, such as the kubelet's ``/pods``. None: the API server that a pod's environment names."""
    node: Annotated[str, Field(min_length=1, max_length=256)] | None = None
    """None: ``agent.host``."""
    token_file: Path = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")
    """Sent as bearer token where it is there; read at every listing."""
    ca_file: Path = Path("/var/run/secrets/kubernetes.io/serviceaccount/ca.crt")
    """Authorities of the server. Not there: those of the system."""
    period_ms: int = Field(default=30_000, ge=1_000, le=3_600_000)
    """Between two listings; while they fail pauses grow, to five minutes."""
    list_bytes_max: int = Field(default=32 * 1024 * 1024, ge=64 * 1024, le=1024 * 1024 * 1024)
    """Of one listing; a longer one is not read."""
    pods_max: int = Field(default=1_024, ge=1, le=65_536)
    """Of this node, by namespace and name; more stay without names, and are warned of."""
    engines: Literal["known", "marked", "off"] = "known"
    """Pods scraped as engines: of a known image or marked by ``fleetpulse-engine``; marked ones alone; none."""
    engines_max: int = Field(default=64, ge=1, le=1_024)
    """Engines in pods of this node; more are not scraped, and warned of."""
