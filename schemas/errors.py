"""The one tree of errors, split by what the caller does about them.

``retriable`` errors are the network's or a server's; trying again may help. Everything else is final: a person or a
dead-letter topic must take it. Every text says what to change.
"""

from __future__ import annotations

import re


class FleetpulseError(Exception):
    """Root of everything fleetpulse raises on purpose."""

    retriable = False


_USERINFO = re.compile(r"(?<=//).*@|[^\s/'\"]+:(?!//).*@", re.DOTALL)
"""User and password of an address, with a scheme or without. Up to the last ``@``: a password may hold anything."""


def without_credentials(text: str) -> str:
    """The text without user and password of an address in it."""
    return _USERINFO.sub("...@", text)


class ConfigError(FleetpulseError):
    """A setting is wrong. ``key`` names it, ``bound`` says what it must satisfy. Credentials in a value are hidden."""

    def __init__(self, key: str, value: object, bound: str) -> None:
        super().__init__(f"{key} = {without_credentials(repr(value))}: {bound}")
        self.key = key
        self.value = without_credentials(value) if isinstance(value, str) else value
        self.bound = bound


class RejectedError(FleetpulseError):
    """A record or event that cannot be accepted. ``reason`` is one of ``schemas.contract.verdicts.REASONS``."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


def rejection(error: Exception) -> RejectedError:
    """Why a record is refused on which a reader failed: a defect of ours costs that record, for reason ``internal``."""
    if isinstance(error, RejectedError):
        return error
    return RejectedError("internal", f"{type(error).__name__}: {error}"[:500])


class ContractError(FleetpulseError):
    """The world around does not keep a contract (topic missing, wrong timestamp type, lost offsets)."""


class TopicMissingError(ContractError):
    """A topic of the contract does not exist."""

    def __init__(self, topic: str) -> None:
        super().__init__(f"topic {topic} does not exist; run `fleetpulse migrate`")


class PartitionError(ContractError):
    """One source partition of a job cannot go on from where it stands; the job's others can. ``cause`` is one of
    ``stream_jobs.runner.quarantine.CAUSES``."""

    def __init__(self, cause: str, detail: str) -> None:
        super().__init__(detail)
        self.cause = cause


class NewerReleaseError(ContractError):
    """A newer release wrote a record that this one cannot read. It is not rejected: the process ends until upgraded."""


class UnavailableError(FleetpulseError):
    """A server did not respond, or responded that it is unavailable."""

    retriable = True


class DiskFullError(UnavailableError):
    """A server takes nothing because its disk is full."""


class BrokenPartError(UnavailableError):
    """A server cannot read what it has stored: files of a part are damaged."""


class ReplicaBehindError(UnavailableError):
    """A server of several lacks a table or column: it may not have executed yet what made it on the others."""


class CertificateExpiredError(UnavailableError):
    """A server's certificate is out of its time."""


class FencedError(FleetpulseError):
    """Another process took over; this one must end at once without sending anything more."""


class StackError(FleetpulseError):
    """The local stack cannot be started or stopped; the text says what to do."""
