#!/usr/bin/env python3
"""Rotary frequencies of transformers 5.2.0 (torch 2.6.0), computed in f32 there.

    python3 tests/golden/rope.py > tests/golden/rope.txt

A line: type theta head_dim factor original beta_fast beta_slow attention_factor frequency...
Read by tests/unit/test_arch.c.
"""
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

CASES = [
    ("linear", 10000.0, 64, 4.0, 4096, 32.0, 1.0),
    ("yarn", 1000000.0, 64, 4.0, 32768, 32.0, 1.0),
    ("yarn", 1000000.0, 128, 4.0, 32768, 32.0, 1.0),
    ("yarn", 150000.0, 64, 64.0, 4096, 32.0, 1.0),
    ("yarn", 10000.0, 64, 8.0, 2048, 4.0, 1.0),
    ("llama3", 500000.0, 64, 32.0, 8192, 0.0, 0.0),
    ("llama3", 500000.0, 128, 8.0, 8192, 0.0, 0.0),
]

for kind, theta, d, factor, original, fast, slow in CASES:
    rope = {"rope_type": kind, "rope_theta": theta, "factor": factor}
    if kind == "yarn":
        rope |= {"original_max_position_embeddings": original, "beta_fast": fast, "beta_slow": slow}
    if kind == "llama3":
        rope |= {"original_max_position_embeddings": original, "low_freq_factor": 1.0,
                 "high_freq_factor": 4.0}
    config = LlamaConfig(hidden_size=4 * d, num_attention_heads=4, head_dim=d,
                         max_position_embeddings=int(original * factor), rope_parameters=rope)
    freq, attn = ROPE_INIT_FUNCTIONS[kind](config, "cpu")
    print(kind, theta, d, factor, original, fast, slow, repr(float(attn)),
          *[repr(float(f)) for f in freq])
