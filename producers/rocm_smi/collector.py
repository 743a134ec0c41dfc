"""rocm-smi collector: as that of nvidia-smi, for AMD GPUs. It reports no energy, no throttling and no processes."""

from __future__ import annotations

from producers.nvidia_smi.collector import SmiCollector, SmiError
from producers.nvidia_smi.fields import Table
from producers.rocm_smi.fields import ARGUMENTS, SAMPLE_FIELDS, read_cards


class RocmCollector(SmiCollector):
    """Raises ``SmiError`` after as many failures in a row."""

    name = "rocm_smi"
    fields = SAMPLE_FIELDS

    def _table(self) -> Table:
        answer = self._run([self._program, *ARGUMENTS])
        if answer.status:
            raise SmiError(f"{self._program} ended with {answer.status}: {answer.output[:200].strip()}")
        return read_cards(answer.output, self._identity.labels["host"] or "")
