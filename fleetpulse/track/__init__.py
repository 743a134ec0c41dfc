"""Track LLM requests from inside an application: one datagram per finished request to the agent of this host.

    from fleetpulse import track

    with track.request("llama-3.3-70b", tenant="acme") as request:
        for piece in stream:
            request.token()
        request.set(input_tokens=812)

    client = track.openai(OpenAI(), tenant="acme")        # every call of this client, streamed or not

    @track.tracked("llama-3.3-70b")                       # functions, coroutines, generators of both kinds
    def answer(prompt): ...

Nothing here raises into the caller, waits, or starts a thread. Standard library only; this package imports nothing
else of fleetpulse. docs/sdk.md has the whole story and the wire format.
"""

from __future__ import annotations

from fleetpulse.track.calls import openai, tracked, wrap
from fleetpulse.track.handover import Client, client
from fleetpulse.track.requests import FIELDS, Request, report, request
from fleetpulse.track.streams import watch

__all__ = ["FIELDS", "Client", "Request", "client", "openai", "report", "request", "tracked", "watch", "wrap"]
