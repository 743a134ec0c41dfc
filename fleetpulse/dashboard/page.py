"""What a page is: a module of ``pages`` whose ``PAGE`` says where it stands, what it filters by, how it is built."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from fleetpulse.dashboard.view import Refresh, View


@dataclass(frozen=True, slots=True)
class PageSpec:
    """``path`` such as ``/fleet``; ``icon`` a name of the Material icons; ``options`` name and default.

    ``build`` makes the elements once and asks nothing; the shell calls the refresh it returns: at once, when range,
    filters or options change, and every ``live_s`` in live mode.
    """

    path: str
    title: str
    icon: str
    about: str
    """One line under the title."""
    build: Callable[[View], Refresh]
    filters: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    in_menu: bool = True
    has_range: bool = True
    live_s: float = 5.0
