#!/usr/bin/env python3
"""SmolLM2-135M in llama.cpp on an f32 copy of its weights: the second independent implementation.

    python3 tests/golden/llamacpp.py MODEL.gguf tests/golden/forward.h5 tests/golden/llamacpp.h5

Made with llama-cpp-python 0.3.36, gguf 0.19.0, h5py 3.16.0 and numpy, from the same file and the same
256 ids as forward.py. Every tensor is dequantised by the gguf package and written as F32, so that
llama.cpp quantises no activations; f32 KV cache, no flash attention, raw logits of every position.

    top_id    i32 [16 64], top_logp f32 [16 64]    log-softmax of the logits behind each position
"""
import os
import sys
import tempfile

import gguf
import h5py
import llama_cpp
import numpy as np


def f32_copy(source, dest):
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(dest, "llama")
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name in ("general.architecture", "general.file_type"):
            continue
        kind = field.types[0]
        writer.add_key_value(field.name, field.contents(), kind,
                             sub_type=field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None)
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, gguf.dequantize(tensor.data, tensor.tensor_type).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


with h5py.File(sys.argv[2]) as f:
    ids, pos = f["id"][:].tolist(), f["pos"][:]
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "f32.gguf")
    f32_copy(sys.argv[1], path)
    model = llama_cpp.Llama(path, n_ctx=512, n_batch=512, n_threads=2, logits_all=True, flash_attn=False,
                            type_k=llama_cpp.GGML_TYPE_F32, type_v=llama_cpp.GGML_TYPE_F32, verbose=False)
    model.eval(ids)
    logits = np.array(model.scores[:len(ids)], np.float64)[pos]
logp = logits - logits.max(-1, keepdims=True)
logp -= np.log(np.exp(logp).sum(-1, keepdims=True))
top = np.argsort(-logp, -1, kind="stable")[:, :64]
with h5py.File(sys.argv[3], "w") as f:
    f.create_dataset("top_id", data=top.astype(np.int32), compression="gzip", shuffle=True)
    f.create_dataset("top_logp", data=np.take_along_axis(logp, top, -1).astype(np.float32),
                     compression="gzip", shuffle=True)
with h5py.File(sys.argv[2]) as f:
    both = np.take_along_axis(logp, f["top_id"][:].astype(np.int64), -1)
    print("largest difference to transformers over its top 64:", np.abs(both - f["top_logp"][:]).max())
