"""Names that the runner gives: groups, transactional ids, keys of snapshots."""

from __future__ import annotations

from dataclasses import dataclass

from schemas.contract.topics import state_topic


@dataclass(frozen=True, slots=True)
class Names:
    """Names of one job in one deployment; ``deployment`` keeps two installations on one cluster apart."""

    deployment: str
    job: str

    @property
    def group(self) -> str:
        return f"{self.deployment}-{self.job}"

    def transactional_id(self, topic: str, partition: int) -> str:
        """The fence: the same for every owner of the partition, in whatever process."""
        return f"{self.deployment}-{self.job}-{topic}-{partition}"

    def state_topic(self, source_topic: str) -> str:
        return state_topic(self.job, source_topic)

    def state_key(self, slot: int, piece: int) -> bytes:
        return b"%s%d/%d" % (self.state_prefix, slot, piece)

    @property
    def state_prefix(self) -> bytes:
        return f"{self.deployment}/".encode()
