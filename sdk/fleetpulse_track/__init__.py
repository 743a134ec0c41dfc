"""Track LLM requests from inside an application: one datagram per finished request to the agent of this host.

    import fleetpulse_track as track

    with track.request("llama-3.3-70b", tenant="acme") as request:
        for piece in stream:
            request.token()
        request.set(input_tokens=812)

    client = track.openai(OpenAI(), tenant="acme")        # a tracked copy: every call is a request

    @track.tracked("llama-3.3-70b")                       # functions, coroutines, generators of both kinds
    def answer(prompt): ...

    track.metric("queue_depth", 12, pool="batch")         # a level; track.count("retries") adds to a total

Nothing here raises into the caller, waits, or starts a thread. Standard library only: an application that installs
this distribution gets no other. ``training`` has steps of training jobs, ``torch_memory`` figures of the allocator,
``plugins`` the same as here for vLLM, LiteLLM, LangChain and LlamaIndex.
"""

from __future__ import annotations

from fleetpulse_track.calls import tracked, wrap
from fleetpulse_track.handover import Client, client
from fleetpulse_track.metrics import count, metric
from fleetpulse_track.openai_client import openai
from fleetpulse_track.requests import FIELDS, Request, report, request
from fleetpulse_track.streams import watch

__all__ = [
    "FIELDS", "Client", "Request", "client", "count", "metric", "openai", "report", "request", "tracked", "watch",
    "wrap",
]  # fmt: skip
