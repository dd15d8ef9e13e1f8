#!/usr/bin/env python3
"""The real models in transformers, f32, on the dequantised weights of their GGUF files.

    python3 tests/golden/forward.py smollm2.gguf tests/golden/forward.h5
    python3 tests/golden/forward.py gemma3-270m.gguf tests/golden/gemma.h5

Made with torch 2.6.0 (Gemma: 2.15.0), transformers 5.2.0, gguf 0.19.0, h5py 3.16.0 and numpy 2.4.6 on a CPU, from
the files of scripts/fetch-model. transformers reads the GGUF itself (its own dequantisation, its own order of q and
k, its own gains of norms). Gemma's prompt is longer than its sliding window of 512; its ids are the longest tokens
of the vocabulary from left to right, which is not the model's own tokenizer (that has its own golden files).
Read by test_golden_forward.c:

    id        i32 [N]              prompt: the text below through the model's own vocabulary
    layer     i32 [3], pos i32 [16]
    q         f32 [3 16 H D]       after RoPE      k, v  f32 [3 16 G D]
    rows      f32 [3 16 H N]       eager attention, softmax in f32
    top_id    i32 [16 64], top_logp f32 [16 64]    log-softmax of the logits behind each position
    greedy    i32 [64], gap f32 [64]               tokens, and best logit minus the second
"""
import os
import sys

import h5py
import numpy as np
import torch
from gguf import GGUFReader
from transformers import AutoModelForCausalLM, AutoTokenizer

TEXT = """<|im_start|>system
You are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>
<|im_start|>user
The keeper of the lighthouse wrote down, every evening, how many ships had passed. On the first of
March there were four, and a fog so thick that he counted them by their horns. On the second there
were eleven; one of them, a schooner with a patched foresail, lay at anchor until midnight. On the
third nothing moved. He mended the stair, wound the clock, read the almanac twice, and noted that
the barometer fell faster than he had ever seen it fall. By morning the sea had taken the jetty, two
boats and the lower garden. The supply ship did not come for nineteen days, and when it came, its
master asked for the book before he unloaded a single barrel. "Four, eleven, none," he read, "and
then you stopped." The keeper said that there had been nobody to count. The master closed the book
and said that this, too, was a number. Which day had the most ships, how many were they, and why did
the keeper stop writing? Answer in full sentences, and say what you infer and what is written in the
text itself. Be brief.<|im_end|>
<|im_start|>assistant
"""
LOG = TEXT.split("user\n")[1].split(" Which day")[0] + " " + " ".join(
    f"On the {d}th of {m} the keeper counted {(7 * d + 3 * len(m)) % 23} ships, and wrote that the wind was "
    f"{'north' if d % 2 else 'west'}." for m in ("April", "May", "June") for d in range(4, 20)) + (
    " The book was closed at the end of June. In all those days, the keeper had")
# name: text, tokens that are taken from its two ends, layers, positions
MODELS = {
    "llama": (TEXT, (128, 128), [0, 14, 29],
              [0, 1, 2, 3, 63, 64, 65, 127, 128, 129, 191, 200, 240, 253, 254, 255]),
    "gemma3": (LOG, (320, 320), [0, 11, 16],  # windows in 0 and 16, everything in 11
               [0, 1, 2, 63, 64, 255, 256, 400, 510, 511, 512, 513, 575, 600, 638, 639]),
}



def longest(text):
    tokens = GGUFReader(sys.argv[1]).fields["tokenizer.ggml.tokens"].contents()
    index, text, out = {t: i for i, t in enumerate(tokens)}, text.replace(" ", "\u2581"), []
    while text:
        n = next(n for n in range(min(len(text), 24), 0, -1) if text[:n] in index)
        out.append(index[text[:n]])
        text = text[n:]
    return out


torch.set_num_threads(2)
path = os.path.abspath(sys.argv[1])
folder, name = os.path.split(path)
model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=name, dtype=torch.float32,
                                             attn_implementation="eager").eval()
kind = model.config.model_type.removesuffix("_text")
TEXT, ENDS, LAYERS, POS = MODELS[kind]
if kind == "gemma3":  # transformers takes a quarter of an hour to convert this vocabulary
    ids = [2] + longest(TEXT)
else:
    tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=name)
    ids = tokenizer(TEXT, add_special_tokens=False)["input_ids"]
assert len(ids) >= sum(ENDS), len(ids)
ids = ids[:ENDS[0]] + ids[-ENDS[1]:]  # the end stays
modelling = sys.modules[type(model.model.layers[0].self_attn).__module__]

seen = []
rotate = modelling.apply_rotary_pos_emb


def keep(q, k, *args, **kwargs):
    q, k = rotate(q, k, *args, **kwargs)
    seen.append((q[0].detach().clone(), k[0].detach().clone()))
    return q, k


values = {}


def keep_value(l):
    def hook(module, args, y):  # returns nothing: what a hook returns becomes the output
        values[l] = y[0].detach().clone()
    return hook


hooks = [model.model.layers[l].self_attn.v_proj.register_forward_hook(keep_value(l)) for l in LAYERS]
modelling.apply_rotary_pos_emb = keep
with torch.no_grad():
    out = model(torch.tensor([ids]), output_attentions=True, use_cache=False)
modelling.apply_rotary_pos_emb = rotate
for h in hooks:
    h.remove()

g = model.config
D = model.model.layers[0].self_attn.head_dim
logp = torch.log_softmax(out.logits[0, POS].double(), -1)
top = torch.topk(logp, 64)

greedy, gap = [], []
with torch.no_grad():
    past, step = None, torch.tensor([ids])
    for _ in range(64):
        o = model(step, past_key_values=past, use_cache=True)
        past, z = o.past_key_values, o.logits[0, -1]
        best = torch.topk(z, 2)
        greedy.append(int(best.indices[0]))
        gap.append(float(best.values[0] - best.values[1]))
        step = torch.tensor([[greedy[-1]]])
print(greedy)

with h5py.File(sys.argv[2], "w") as f:
    def put(name, x):
        f.create_dataset(name, data=x, compression="gzip", compression_opts=9, shuffle=True)

    put("id", np.array(ids, np.int32))
    put("layer", np.array(LAYERS, np.int32))
    put("pos", np.array(POS, np.int32))
    put("q", np.stack([seen[l][0].numpy()[:, POS].transpose(1, 0, 2) for l in LAYERS]))
    put("k", np.stack([seen[l][1].numpy()[:, POS].transpose(1, 0, 2) for l in LAYERS]))
    put("v", np.stack([values[l].numpy()[POS].reshape(16, -1, D) for l in LAYERS]))
    put("rows", np.stack([out.attentions[l][0].numpy()[:, POS].transpose(1, 0, 2) for l in LAYERS]))
    put("top_id", top.indices.numpy().astype(np.int32))
    put("top_logp", top.values.numpy().astype(np.float32))
    put("greedy", np.array(greedy, np.int32))
    put("gap", np.array(gap, np.float32))
