"""The pods of this node: listed from the API server (or the kubelet) twice a minute, and kept for whoever asks.

No request waits for it: names come from the list that was read last, and are unknown until there is one. While no list
can be had, the one before stays, and pauses grow. The token is read at every listing, because the cluster replaces it.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from urllib.parse import quote

from producers.collector import Collected, Row
from producers.engines.fetch import FetchError, FetchLimits, fetch
from producers.kubernetes.pods import Pod, PodListError, pods_of
from runtime.counters import COUNTERS, Counters
from runtime.pod_config import KubernetesConfig

_log = logging.getLogger(__name__)

PAUSE_MS_MAX = 300_000
TIME_MS_MAX = 5_000
RIGHT = "list of pods (ClusterRole fleetpulse-agent in deploy/kubernetes/agent.yaml)"


class Pods:
    """Replaced as a whole; read without a lock. Listings are numbered: ``begun`` is the newest that was begun,
    ``listing`` the one that ``all`` is of, or an older one."""

    def __init__(self) -> None:
        self.begun = self.listing = 0
        self.all: tuple[Pod, ...] = ()
        self._by_uid: Mapping[str, Pod] = {}

    def begin(self) -> int:
        """The number of a listing that begins now."""
        self.begun += 1
        return self.begun

    def replace(self, pods: Iterable[Pod], listing: int | None = None) -> None:
        """Use these, of this listing; of one that begins now where it is None."""
        listing = self.begin() if listing is None else listing
        self.all = tuple(pods)
        static = {pod.static_uid: pod for pod in self.all if pod.static_uid}
        self._by_uid = static | {pod.uid: pod for pod in self.all}
        self.listing = listing

    def labels_of(self, uid: str | None) -> Row:
        """``pod_name`` and ``pod_namespace``, None where the pod is not known."""
        pod = self._by_uid.get(uid) if uid else None
        return {"pod_name": pod.name if pod else None, "pod_namespace": pod.namespace if pod else None}


def url_of(config: KubernetesConfig, node: str, environment: Mapping[str, str] = os.environ) -> str | None:
    """Where the pods of the node are listed; None outside a cluster where no address is configured.

    Version 0 is answered from the API server's memory: no load for its store.
    """
    if config.pods_url is not None:
        return config.pods_url
    host, port = environment.get("KUBERNETES_SERVICE_HOST"), environment.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        return None
    server = f"https://{f'[{host}]' if ':' in host else host}:{port}"
    selector = quote(f"spec.nodeName={config.node or node}", safe="")
    return f"{server}/api/v1/pods?fieldSelector={selector}&resourceVersion=0"


def list_pods(url: str, config: KubernetesConfig) -> tuple[tuple[Pod, ...], int]:
    """As ``pods_of``. Raises ``FetchError`` and ``PodListError``."""
    token = config.token_file.read_text().strip() if config.token_file.is_file() else None
    secured = config.ca_file if url.startswith("https:") and config.ca_file.is_file() else None
    body = fetch(url, FetchLimits(TIME_MS_MAX, config.list_bytes_max), token, ca_file=secured)
    return pods_of(body, config.pods_max)


class PodLister:
    """The collector; no rows. ``listed``: ``list_pods`` of a URL."""

    name = "pods"

    def __init__(
        self,
        pods: Pods,
        period_ms: int,
        listed: Callable[[], tuple[tuple[Pod, ...], int]],
        counters: Counters = COUNTERS,
    ) -> None:
        self.period_ms = period_ms
        self._every_ms = period_ms
        self._pods = pods
        self._listed = listed
        self._counters = counters
        self._logged = set[str]()

    def collect(self, at_ms: int) -> Sequence[Collected]:
        """Nothing; who asks for a pod afterwards gets it."""
        listing = self._pods.begin()
        try:
            found, left_out = self._listed()
        except (FetchError, PodListError, OSError) as error:
            self._counters.add("errors", where="collector-pods", error=type(error).__name__)
            self.period_ms = min(PAUSE_MS_MAX, self.period_ms * 2)
            if self._first("list"):
                facts = {"why": str(error), "grant": RIGHT}
                _log.warning("pods of this node cannot be listed; they stay without names", extra=facts)
            return []
        self.period_ms = self._every_ms
        self._pods.replace(found, listing)
        if left_out and self._first("pods_max"):
            facts = {"left_out": str(left_out), "setting": "agent.kubernetes.pods_max"}
            _log.warning("too many pods on this node; the rest has no names", extra=facts)
        return []

    def close(self) -> None:
        """Nothing is held open."""

    def _first(self, what: str) -> bool:
        """Whether it is warned of now, and never again."""
        known = what in self._logged
        self._logged.add(what)
        return not known


def lister_of(pods: Pods, config: KubernetesConfig, url: str) -> PodLister:
    """For one agent."""
    return PodLister(pods, config.period_ms, partial(list_pods, url, config))
