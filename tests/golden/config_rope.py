#!/usr/bin/env python3
"""Rotary frequencies as transformers computes them from config.json, for test_config.c.

    python3 tests/golden/config_rope.py > tests/golden/config_rope.txt

Made with transformers 5.2.0, torch 2.15.0 (CPU). A line is: attention factor, frequencies of
the rotary pairs (f32, shortest digits), a tab, config.json on one line. Nothing is random.
"""
import json

import numpy as np
from transformers import AutoConfig, Gemma3TextConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

LLAMA = {"model_type": "llama", "hidden_size": 256, "intermediate_size": 512,
         "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
         "vocab_size": 320, "max_position_embeddings": 131072, "rms_norm_eps": 1e-5}
QWEN = dict(LLAMA, model_type="qwen2", tie_word_embeddings=True)
LLAMA3 = {"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 8192}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}


def old(base, theta, **scaling):
    """rope_theta and rope_scaling; `type` in place of rope_type as the oldest files have it."""
    return dict(base, rope_theta=theta, rope_scaling=scaling)


def new(base, theta, **scaling):
    return dict(base, rope_parameters=dict(scaling, rope_theta=theta))


WIDE = {"head_dim": 128}
CONFIGS = [
    old(LLAMA, 500000.0, **LLAMA3),  # C031
    new(LLAMA, 500000.0, **LLAMA3),
    old(dict(LLAMA, **WIDE), 500000.0, **dict(LLAMA3, factor=8.0)),
    old(LLAMA, 10000.0, type="linear", factor=2.5),
    new(LLAMA, 10000.0, rope_type="linear", factor=2.5),
    old(QWEN, 1000000.0, type="yarn", factor=4.0, original_max_position_embeddings=32768),
    new(QWEN, 1000000.0, **YARN),  # C032
    new(QWEN, 1000000.0, **YARN, attention_factor=1.0),
    new(QWEN, 1000000.0, **dict(YARN, factor=64.0)),
    new(QWEN, 1000000.0, **YARN, beta_fast=4.0),
    new(QWEN, 1000000.0, **YARN, beta_fast=16.0, beta_slow=2.0, truncate=False),
    new(QWEN, 1000000.0, **YARN, mscale=1.0, mscale_all_dim=0.8),
    new(dict(QWEN, model_type="qwen3", **WIDE), 1000000.0, **YARN),
]


def main():
    for raw in CONFIGS:
        config = AutoConfig.for_model(**json.loads(json.dumps(raw)))
        kind = config.rope_parameters["rope_type"]
        freq, factor = ROPE_INIT_FUNCTIONS[kind](config, device="cpu")
        values = " ".join(repr(float(x)) for x in freq.numpy().astype(np.float32))
        print(f"{float(factor)!r} {values}\t{json.dumps(raw)}")


if __name__ == "__main__":
    main()
