"""Run in an environment of its own: LangChain, LlamaIndex, LiteLLM and an older ``openai`` (on httpx) call an engine.

``python sdk_frameworks.py URL``: prints what the SDK reported of each call, as JSON. The SDK comes by PYTHONPATH.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import Callable
from typing import Any

import fleetpulse_track as track
from fleetpulse_track import handover
from fleetpulse_track.handover import HEADER

MODEL = "m"
rows: list[dict[str, Any]] = []


class Recorded(track.Client):
    def _sent(self, datagram: bytes) -> bool:
        head = HEADER.unpack_from(datagram)
        rows.append({**json.loads(datagram[-head[3] :]), "chunks": head[5]})
        return True


def langchain(url: str) -> dict[str, Callable[[], Any]]:
    from langchain_openai import ChatOpenAI

    from fleetpulse_track.plugins.langchain import RequestHandler

    def model(name: str = MODEL) -> Any:
        handlers = [RequestHandler(tenant="t")]
        return ChatOpenAI(model=name, base_url=url, api_key="k", max_retries=0, stream_usage=True, callbacks=handlers)

    def left() -> None:
        stream = model().stream("hi")
        next(text for text in stream if text.content)
        stream.close()

    async def awaited() -> None:
        assert [chunk async for chunk in model().astream("hi")]

    return {
        "langchain invoke": lambda: model().invoke("hi"),
        "langchain stream": lambda: list(model().stream("hi")),
        "langchain astream": lambda: asyncio.run(awaited()),
        "langchain left": left,
        "langchain 500": lambda: model("fail-500").invoke("hi"),
    }


def llama_index(url: str) -> dict[str, Callable[[], Any]]:
    from llama_index.core.llms import ChatMessage
    from llama_index.llms.openai_like import OpenAILike

    from fleetpulse_track.plugins import llamaindex

    llamaindex.install(tenant="t")
    hi = [ChatMessage(content="hi")]

    def model(name: str = MODEL) -> Any:
        usage = {"stream_options": {"include_usage": True}}
        return OpenAILike(model=name, api_base=url, api_key="k", is_chat_model=True, max_retries=0), usage

    def streamed() -> None:
        llm, usage = model()
        assert list(llm.stream_chat(hi, **usage))

    def left() -> None:
        stream = model()[0].stream_chat(hi)
        next(chunk for chunk in stream if chunk.delta)
        stream.close()

    async def awaited() -> None:
        llm, usage = model()
        assert [chunk async for chunk in await llm.astream_chat(hi, **usage)]

    return {
        "llama_index chat": lambda: model()[0].chat(hi),
        "llama_index complete": lambda: model()[0].complete("hi"),
        "llama_index stream": streamed,
        "llama_index astream": lambda: asyncio.run(awaited()),
        "llama_index left": left,
        "llama_index 500": lambda: model("fail-500")[0].chat(hi),
    }


def litellm(url: str) -> dict[str, Callable[[], Any]]:
    import litellm as package

    from fleetpulse_track.plugins.litellm import RequestLogger

    package.callbacks = [RequestLogger()]
    package.suppress_debug_info = True
    hi = [{"role": "user", "content": "hi"}]
    sent = {"model": f"openai/{MODEL}", "messages": hi, "api_base": url, "api_key": "k", "max_retries": 0}
    usage = {"stream": True, "stream_options": {"include_usage": True}}

    async def awaited(**more: Any) -> None:
        answer = await package.acompletion(**{**sent, **more})
        if "stream" in more:
            assert [chunk async for chunk in answer]
        await asyncio.sleep(1)  # callbacks run behind the call

    return {
        "litellm acompletion": lambda: asyncio.run(awaited()),
        "litellm astream": lambda: asyncio.run(awaited(**usage)),
        "litellm 500": lambda: asyncio.run(awaited(model="openai/fail-500")),
    }


def openai(url: str) -> dict[str, Callable[[], Any]]:
    import openai as package

    ours = track.openai(package.OpenAI(base_url=url, api_key="k", max_retries=0), tenant="t")
    hi: Any = [{"role": "user", "content": "hi"}]
    usage: Any = {"include_usage": True}

    def helper() -> None:
        with ours.chat.completions.stream(model=MODEL, messages=hi, stream_options=usage) as events:
            assert list(events)

    def left() -> None:
        with ours.chat.completions.create(model=MODEL, messages=hi, stream=True) as stream:
            assert isinstance(stream, package.Stream)
            for _ in range(2):
                next(stream)

    return {
        "openai create": lambda: ours.chat.completions.create(model=MODEL, messages=hi),
        "openai stream": helper,
        "openai left": left,
        "openai 500": lambda: ours.chat.completions.create(model="fail-500", messages=hi),
    }


def main() -> None:
    handover._default = Recorded("/nowhere")
    found = {}
    for framework in (openai, langchain, llama_index, litellm):
        for name, call in framework(sys.argv[1]).items():
            rows.clear()
            with contextlib.suppress(Exception):
                call()
            found[name] = list(rows)
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
