"""llama.cpp's server with random weights, for ``lab/bench/counterparts.py``; runs in an environment of its own.

``python counterparts_llama.py MODEL PORT [THREADS]``: writes the model there if it is missing, then serves until
SIGTERM. The text is nonsense; what counts is that a real engine streams it.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

WORDS, WIDTH, LAYERS, HEADS, INNER, CONTEXT = 8_192, 256, 4, 4, 768, 4_096
SLOTS = 8
TEMPLATE = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}assistant:"
NORMAL, UNKNOWN, CONTROL, BYTE = 1, 2, 3, 6
"""Kinds of tokens, as llama.cpp numbers them."""


def words() -> tuple[list[str], list[int]]:
    """Tokens and their kinds: the special ones, all bytes, printable characters, and made-up words."""
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    kinds = [UNKNOWN, CONTROL, CONTROL, *[BYTE] * 256]
    tokens += [*map(chr, range(33, 127)), "\u2581"]
    tokens += [f"\u2581word{number}" for number in range(WORDS - len(tokens))]
    return tokens, kinds + [NORMAL] * (WORDS - len(kinds))


def write_model(path: Path, seed: int = 1) -> None:
    """A small llama of random weights."""
    import gguf

    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_vocab_size(WORDS)
    tokens, kinds = words()
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([-float(rank) for rank in range(WORDS)])
    writer.add_token_types(kinds)
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_chat_template(TEMPLATE)
    for name, weights in tensors(seed):
        writer.add_tensor(name, weights)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def tensors(seed: int) -> list[tuple[str, Any]]:
    """Names and random weights of all layers."""
    import numpy as np

    rng = np.random.default_rng(seed)
    shapes = {"attn_q": (WIDTH, WIDTH), "attn_k": (WIDTH, WIDTH), "attn_v": (WIDTH, WIDTH)}
    shapes |= {"attn_output": (WIDTH, WIDTH), "ffn_gate": (INNER, WIDTH), "ffn_up": (INNER, WIDTH)}
    shapes |= {"ffn_down": (WIDTH, INNER)}
    ends = {"token_embd": (WORDS, WIDTH), "output": (WORDS, WIDTH)}
    drawn = ends | {f"blk.{layer}.{name}": shape for layer in range(LAYERS) for name, shape in shapes.items()}
    norms = ["output_norm", *(f"blk.{layer}.{name}" for layer in range(LAYERS) for name in ("attn_norm", "ffn_norm"))]
    found = [(f"{name}.weight", rng.normal(0, 0.05, shape).astype(np.float32)) for name, shape in drawn.items()]
    return found + [(f"{name}.weight", np.ones(WIDTH, np.float32)) for name in norms]


def serve(path: Path, port: int, threads: int) -> None:
    """Serve until SIGTERM, which is waited for blocked: none is missed, whenever it comes."""
    import xllamacpp

    stop = {signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, stop)  # before the server's threads, which have it blocked then, too
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(path)
    parameters.port = port
    parameters.n_parallel = SLOTS
    parameters.n_ctx = CONTEXT
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = threads
    server = xllamacpp.Server(parameters)
    print(server.listening_address, flush=True)
    signal.sigwait(stop)
    os._exit(0)


if __name__ == "__main__":
    model = Path(sys.argv[1])
    if not model.exists():
        write_model(model)
    serve(model, int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 1)
