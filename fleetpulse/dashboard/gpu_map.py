"""The map of all GPUs as an element, drawn by ``gpu_map.js``; labels of a GPU are sent when somebody looks at it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from nicegui import ui


class GpuMap(ui.element, component="gpu_map.js"):
    """``describe`` gives the lines about the GPU of a number, ``choose`` opens it; both get numbers in range alone."""

    def __init__(self, label: str, describe: Callable[[int], list[str]], choose: Callable[[int], None]) -> None:
        super().__init__()
        self._describe = describe
        self._choose = choose
        self._count = 0
        self._props["label"] = label
        self.show({"columns": 1, "rows": 1, "height": 0, "places": "", "levels": "", "states": "", "shades": "",
                   "hosts": [], "least": "", "most": ""})  # fmt: skip
        self.on("look", lambda event: self._checked(event.args, self._look))
        self.on("choose", lambda event: self._checked(event.args, self._choose))

    def show(self, properties: Mapping[str, Any]) -> None:
        """Draw what ``heat_map`` made."""
        self._count = len(properties["levels"])
        self._props.update(properties)
        self.update()

    def _look(self, number: int) -> None:
        self.run_method("describe", number, self._describe(number))

    def _checked(self, number: Any, then: Callable[[int], None]) -> None:
        """What a browser emits may be anything."""
        if isinstance(number, int) and 0 <= number < self._count:
            then(number)
