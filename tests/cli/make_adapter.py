"""A random adapter for a tiny model, as safetensors, for tests that are scripts:

    make_adapter.py OUT DIGEST [kind=lookaheadkv tokens=4 rank=2 hidden=48 heads=4 kv_heads=2
                                dim=12 ff=96 layers=2 nan=0]

With nan=1 one weight is NaN."""
import json
import random
import struct
import sys

out, digest, *settings = sys.argv[1:]
o = dict(kind="lookaheadkv", tokens=4, rank=2, hidden=48, heads=4, kv_heads=2, dim=12, ff=96,
         layers=2, nan=0)
for word in settings:
    key, value = word.split("=", 1)
    o[key] = value if key == "kind" else int(value)

random.seed(5)
E, HD, GD, F, r = o["hidden"], o["heads"] * o["dim"], o["kv_heads"] * o["dim"], o["ff"], o["rank"]
maps = {"self_attn.q_proj": (E, HD), "self_attn.k_proj": (E, GD), "self_attn.v_proj": (E, GD),
        "self_attn.o_proj": (HD, E), "mlp.gate_proj": (E, F), "mlp.up_proj": (E, F),
        "mlp.down_proj": (F, E)}
shapes = {"lookahead.embeddings": (o["tokens"], E)}
for layer in range(o["layers"]):
    for name, (wide, high) in maps.items():
        if r:
            shapes[f"model.layers.{layer}.{name}.lora_A.weight"] = (r, wide)
            shapes[f"model.layers.{layer}.{name}.lora_B.weight"] = (high, r)
header, data = {"__metadata__": {"format": "kvt-adapter", "version": "1", "kind": o["kind"], "alpha": "8",
                                 "model_digest": digest, "model": "tiny", "recipe": "{}"}}, b""
for name, shape in sorted(shapes.items()):
    values = [random.gauss(0, 0.1) for _ in range(shape[0] * shape[1])]
    if o["nan"] and name == "lookahead.embeddings":
        values[3] = float("nan")
    block = struct.pack(f"<{len(values)}f", *values)
    header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(block)]}
    data += block
text = json.dumps(header).encode()
text += b" " * (-len(text) % 8)
with open(out, "wb") as file:
    file.write(struct.pack("<Q", len(text)) + text + data)
