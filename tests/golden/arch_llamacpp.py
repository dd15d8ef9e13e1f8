#!/usr/bin/env python3
"""The GGUF files of arch.py in llama.cpp: the second independent implementation.

    python3 tests/golden/arch_llamacpp.py FOLDER tests/golden/arch.h5 tests/golden/arch_llamacpp.h5

Made with llama-cpp-python 0.3.36, h5py 3.16.0 and numpy 2.4.6; f32 weights, f32 KV cache, no flash attention, raw
logits of every position. Windows of qwen2 and what only config.json can say have no GGUF form. A group a model:

    top_id    i32 [24 64], top_logp f32 [24 64]    log-softmax of the logits behind each position
"""
import os
import sys

import h5py
import llama_cpp
import numpy as np

with h5py.File(sys.argv[2]) as golden, h5py.File(sys.argv[3], "w", libver="latest") as out:
    for name, group in golden.items():
        path = os.path.join(sys.argv[1], name.replace(" ", "-") + ".gguf")
        if not os.path.exists(path):
            continue
        ids, pos = group["id"][:].tolist(), group["pos"][:]
        model = llama_cpp.Llama(path, n_ctx=256, n_batch=256, n_threads=1, logits_all=True, flash_attn=False,
                                type_k=llama_cpp.GGML_TYPE_F32, type_v=llama_cpp.GGML_TYPE_F32, verbose=False)
        model.eval(ids)
        logits = np.array(model.scores[:len(ids)], np.float64)
        logp = logits - logits.max(-1, keepdims=True)
        logp -= np.log(np.exp(logp).sum(-1, keepdims=True))
        top = np.argsort(-logp, -1, kind="stable")[:, :64]
        to = out.create_group(name)
        for key, x in (("top_id", top.astype(np.int32)),
                       ("top_logp", np.take_along_axis(logp, top, -1).astype(np.float32))):
            to.create_dataset(key, data=x)
        both = np.take_along_axis(logp[pos], group["top_id"][:].astype(np.int64), -1)
        gap = np.abs(np.exp(both) - np.exp(group["top_logp"][:]))
        print(f"{name}: probabilities differ from transformers by {gap.max():.2e}")
