"""Write a folder with a tiny Llama and a tokenizer trained on the spot. Runs in vLLM's environment: FOLDER.

Weights are not written: the engine makes random ones (``--load-format dummy``).
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

from tokenizers import ByteLevelBPETokenizer  # type: ignore[import-not-found]

WORDS = ("tide", "moon", "salt", "shore", "wave", "harbour", "pilot", "anchor", "rope", "lantern", "gull", "sail")
SPECIAL = ["<s>", "</s>", "<pad>"]
VOCABULARY = 512
TEMPLATE = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}assistant:"


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    chance = random.Random(1)
    text = [" ".join(chance.choices(WORDS, k=12)) for _ in range(2_000)]
    tokenizer = ByteLevelBPETokenizer()
    tokenizer.train_from_iterator(text, vocab_size=VOCABULARY, special_tokens=SPECIAL)
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<s>",
        "eos_token": "</s>",
        "pad_token": "<pad>",
        "model_max_length": 2_048,
        "chat_template": TEMPLATE,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    model = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": 128,
        "intermediate_size": 256,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 32,
        "vocab_size": VOCABULARY,
        "max_position_embeddings": 2_048,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10_000.0,
        "hidden_act": "silu",
        "tie_word_embeddings": False,
        "bos_token_id": 0,
        "eos_token_id": 1,
        "pad_token_id": 2,
        "torch_dtype": "bfloat16",
    }
    (folder / "config.json").write_text(json.dumps(model))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
