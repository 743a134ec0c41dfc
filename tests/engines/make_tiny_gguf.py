"""Write the tiny model as GGUF, for llama.cpp: FOLDER (of ``make_tiny_model``) and FILE. Needs the package ``gguf``.

Weights are random, and rows of the output for special tokens and single bytes are zero, so that it speaks in words.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import gguf  # type: ignore[import-not-found]
import numpy as np

SEED = 11
SPOKEN_FROM = 262
"""Tokens below are special ones, single bytes and their first pairs."""


def main(folder: Path, file: str) -> None:
    model = json.loads((folder / "config.json").read_text())
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    model["vocab_size"] = len(tokenizer["model"]["vocab"])  # the model has room for more
    writer = gguf.GGUFWriter(file, "llama")
    describe(writer, model, tokenizer, json.loads((folder / "tokenizer_config.json").read_text())["chat_template"])
    chance = np.random.default_rng(SEED)
    for name, shape in tensors(model).items():
        if len(shape) == 1:
            writer.add_tensor(name, np.ones(shape, np.float32))
            continue
        weights = chance.standard_normal(shape).astype(np.float32) * 0.02
        if name == "output.weight":
            weights[:SPOKEN_FROM] = 0
        half = (weights.view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)
        writer.add_tensor(name, half, raw_shape=half.shape, raw_dtype=gguf.GGMLQuantizationType.BF16)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def describe(writer: gguf.GGUFWriter, model: dict, tokenizer: dict, template: str) -> None:  # type: ignore[type-arg]
    writer.add_name("tiny")
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_BF16)
    writer.add_context_length(model["max_position_embeddings"])
    writer.add_embedding_length(model["hidden_size"])
    writer.add_block_count(model["num_hidden_layers"])
    writer.add_feed_forward_length(model["intermediate_size"])
    writer.add_head_count(model["num_attention_heads"])
    writer.add_head_count_kv(model["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(model["rms_norm_eps"])
    writer.add_rope_dimension_count(model["head_dim"])
    writer.add_rope_freq_base(model["rope_theta"])
    writer.add_vocab_size(model["vocab_size"])
    special = {each["id"] for each in tokenizer["added_tokens"]}
    names = sorted(tokenizer["model"]["vocab"], key=tokenizer["model"]["vocab"].get)
    kinds = [gguf.TokenType.CONTROL if number in special else gguf.TokenType.NORMAL for number in range(len(names))]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(names)
    writer.add_token_types(kinds)
    merges = tokenizer["model"]["merges"]
    writer.add_token_merges([each if isinstance(each, str) else " ".join(each) for each in merges])
    writer.add_bos_token_id(model["bos_token_id"])
    writer.add_pad_token_id(model["pad_token_id"])
    writer.add_eos_token_id(model["eos_token_id"])
    writer.add_chat_template(template)


def tensors(model: dict) -> dict[str, tuple[int, ...]]:  # type: ignore[type-arg]
    """Shapes by the names that llama.cpp gives them."""
    hidden, inner, words = model["hidden_size"], model["intermediate_size"], model["vocab_size"]
    keys = model["head_dim"] * model["num_key_value_heads"]
    found: dict[str, tuple[int, ...]] = {"token_embd.weight": (words, hidden), "output_norm.weight": (hidden,)}
    found["output.weight"] = (words, hidden)
    for number in range(model["num_hidden_layers"]):
        of_block = {"attn_norm": (hidden,), "ffn_norm": (hidden,), "attn_q": (hidden, hidden)}
        of_block |= {"attn_k": (keys, hidden), "attn_v": (keys, hidden), "attn_output": (hidden, hidden)}
        of_block |= {"ffn_gate": (inner, hidden), "ffn_up": (inner, hidden), "ffn_down": (hidden, inner)}
        found |= {f"blk.{number}.{name}.weight": shape for name, shape in of_block.items()}
    return found


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
