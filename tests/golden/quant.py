#!/usr/bin/env python3
"""Blocks of every quantised type and what the gguf package makes of them.

    python3 tests/golden/quant.py tests/golden/quant.bin

Made with gguf 0.19.0 and numpy 2.4.6 (their sources: github.com/ggml-org/llama.cpp, gguf-py).
For each type: u32 type, u32 blocks, the blocks, f32 of all weights. Per type six blocks: three of
random bytes with scales in [-2, 2], one with scales of zero, one denormal, one the largest.
Read by tests/unit/test_quant.c.
"""
import sys

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType as T
from gguf.quants import dequantize

# Where the halves of a block lie.
HALVES = {
    T.Q4_0: [0], T.Q4_1: [0, 2], T.Q5_0: [0], T.Q5_1: [0, 2], T.Q8_0: [0], T.IQ4_NL: [0],
    T.Q2_K: [80, 82], T.Q3_K: [108], T.Q4_K: [0, 2], T.Q5_K: [0, 2], T.Q6_K: [208],
}


def main(path):
    rng = np.random.default_rng(20240615)
    with open(path, "wb") as out:
        for kind, at in HALVES.items():
            _, size = GGML_QUANT_SIZES[kind]
            blocks = rng.integers(0, 256, (6, size), dtype=np.uint8)
            for i, block in enumerate(blocks):
                for k in at:
                    scale = np.float16([rng.uniform(-2, 2)] * 3 + [0, 5.96e-8 * 3, 65504])[i]
                    block[k:k + 2] = np.frombuffer(scale.tobytes(), np.uint8)
            values = dequantize(blocks, kind).astype("<f4")
            out.write(np.array([kind, len(blocks)], "<u4").tobytes())
            out.write(blocks.tobytes())
            out.write(values.tobytes())


main(sys.argv[1])
