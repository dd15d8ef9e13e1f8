#!/usr/bin/env python3
"""Tiny random models for test_models.sh, written from the formats' descriptions with the standard library alone.

make_models.py good FOLDER [ARCH...]: GGUF files and Hugging Face folders of llama, qwen2, qwen3 and gemma3.
make_models.py size FOLDER: two models for measuring memory.
(make_bad_models.py writes the defects, with the pieces of this file.)

Weights are small multiples of a power of two, so that F32, F16, BF16 and Q8_0 hold the same values exactly, and a
second set those of Q4_0: what the forms of one model make must be equal, not only near.
"""
import array
import json
import os
import random
import struct
import sys

F32, F16, Q4_0, Q8_0, BF16 = 0, 1, 2, 8, 30
DTYPE = {F32: "F32", F16: "F16", BF16: "BF16"}
U16, U32, I32, FLOAT, BOOL, STRING, ARRAY, U64 = 2, 4, 5, 6, 7, 8, 9, 10

# ---- numbers


def encode(values, kind):
    """The bytes of values (whole blocks) in a type; exact, or an error."""
    if kind == F32:
        return struct.pack(f"<{len(values)}f", *values)
    if kind == F16:
        return struct.pack(f"<{len(values)}e", *values)
    if kind == BF16:
        return array.array("H", encode(values, F32))[1::2].tobytes()
    out = bytearray()
    steps, low, high = ((512, 256), -127, 127) if kind == Q8_0 else ((64, 32), -8, 7)
    for at in range(0, len(values), 32):
        block = values[at:at + 32]
        step = next(s for s in steps if all((v * s).is_integer() and low <= v * s <= high for v in block))
        q = [int(v * step) for v in block]
        out += struct.pack("<e", 1 / step)
        if kind == Q8_0:
            out += struct.pack("<32b", *q)
        else:
            out += bytes((q[i] + 8) | (q[i + 16] + 8) << 4 for i in range(16))
    return bytes(out)


# ---- a model: traits and values, in the names, the row order and the gains of Hugging Face

SHAPES = {  # hidden, feed-forward, layers, query heads, kv heads, channels of a head
    "llama": (64, 96, 3, 4, 2, 16),
    "qwen2": (64, 96, 3, 4, 2, 16),
    "qwen3": (64, 96, 3, 4, 2, 32),
    "gemma3": (64, 96, 7, 4, 1, 32),
}


class Model:
    def __init__(self, arch, tied, n_vocab, blocks=Q8_0, seed=1, shape=None, **more):
        self.arch, self.tied, self.n_vocab, self.more = arch, tied, n_vocab, more
        self.hidden, self.ff, self.layers, self.heads, self.kv, self.dim = shape or SHAPES[arch]
        self.rng, self.blocks = random.Random(f"{arch} {seed}"), blocks
        self.tensors = {}  # name: (shape, values)
        self.make()

    def matrix(self, name, rows, columns):
        lowest, highest, steps = (-127, 127, (512, 512, 256)) if self.blocks == Q8_0 else (-8, 7, (64, 64, 32))
        values = []
        for _ in range(rows * columns // 32):
            step = self.rng.choice(steps)
            values += [max(lowest, min(highest, round(self.rng.gauss(0, highest / 2.5)))) / step for _ in range(32)]
        self.tensors[name] = ((rows, columns), values)

    def vector(self, name, n, middle):
        self.tensors[name] = ((n,), [middle + self.rng.randrange(0, 64) / 128 for _ in range(n)])

    def gain(self, name, n):  # Gemma stores w of 1 + w
        self.vector(name + ".weight", n, -0.25 if self.arch == "gemma3" else 0.75)

    def make(self):
        d = self.dim
        self.matrix("model.embed_tokens.weight", self.n_vocab, self.hidden)
        for i in range(self.layers):
            at = f"model.layers.{i}."
            self.gain(at + "input_layernorm", self.hidden)
            for letter, rows in (("q", self.heads), ("k", self.kv), ("v", self.kv)):
                self.matrix(f"{at}self_attn.{letter}_proj.weight", rows * d, self.hidden)
                if self.arch == "qwen2":
                    self.vector(f"{at}self_attn.{letter}_proj.bias", rows * d, -0.25)
            self.matrix(at + "self_attn.o_proj.weight", self.hidden, self.heads * d)
            if self.arch in ("qwen3", "gemma3"):
                self.gain(at + "self_attn.q_norm", d)
                self.gain(at + "self_attn.k_norm", d)
            self.gain(at + "post_attention_layernorm", self.hidden)
            if self.arch == "gemma3":
                self.gain(at + "pre_feedforward_layernorm", self.hidden)
                self.gain(at + "post_feedforward_layernorm", self.hidden)
            self.matrix(at + "mlp.gate_proj.weight", self.ff, self.hidden)
            self.matrix(at + "mlp.up_proj.weight", self.ff, self.hidden)
            self.matrix(at + "mlp.down_proj.weight", self.hidden, self.ff)
        self.gain("model.norm", self.hidden)
        if not self.tied:
            self.matrix("lm_head.weight", self.n_vocab, self.hidden)


# ---- tokenizers

SAMPLE = ("the cat sat on the mat and the dog ran to the house by the sea with a boat that the man made "
          "in the winter when there was snow on the hill and ice on the water of the river").split()


def byte_letters():
    """The letter of each byte in vocabularies of byte-level BPE."""
    out, more = {}, 0
    for b in range(256):
        if 33 <= b <= 126 or 161 <= b <= 172 or 174 <= b <= 255:
            out[b] = chr(b)
        else:
            out[b] = chr(256 + more)
            more += 1
    return out


class ByteLevel:
    """A vocabulary of byte-level BPE: 256 letters, some merges, control tokens behind them."""
    kind = "gpt2"

    def __init__(self, pre, controls, bos=None, eos=None, bos_first=False):
        self.pre, self.controls, self.bos_first = pre, controls, bos_first
        letters = byte_letters()
        self.tokens = [letters[b] for b in range(256)]
        self.merges = []
        for word in ["Ġ" + w for w in SAMPLE] + SAMPLE:
            for n in range(1, len(word)):  # left to right: Ġ t, Ġt h, Ġth e
                if word[:n + 1] not in self.tokens:
                    self.tokens.append(word[:n + 1])
                    self.merges.append((word[:n], word[n]))
        self.n_plain = len(self.tokens)
        self.tokens += controls
        self.bos, self.eos = (self.tokens.index(t) if t else None for t in (bos, eos))

    def gguf(self):
        out = [("tokenizer.ggml.model", STRING, "gpt2"), ("tokenizer.ggml.pre", STRING, self.pre),
               ("tokenizer.ggml.tokens", STRING, self.tokens),
               ("tokenizer.ggml.token_type", I32, [1] * self.n_plain + [3] * len(self.controls)),
               ("tokenizer.ggml.merges", STRING, [" ".join(m) for m in self.merges])]
        if self.bos is not None:
            out += [("tokenizer.ggml.bos_token_id", U32, self.bos)]
        out += [("tokenizer.ggml.eos_token_id", U32, self.eos),
                ("tokenizer.ggml.add_bos_token", BOOL, self.bos_first)]
        return out

    SPLIT = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s| ?[^\s\p{L}\p{N}]+[\r\n]*"
             r"|\s*[\r\n]+|\s+(?!\S)|\s+")

    def json(self, pairs=True):
        level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
        if self.pre == "smollm":
            splits = [{"type": "Digits", "individual_digits": True}, dict(level, use_regex=True)]
        else:
            pattern = self.SPLIT % ("" if self.pre == "qwen2" else "{1,3}")
            splits = [{"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}, level]
        post = dict(level, use_regex=True)
        if self.bos_first:
            name = self.tokens[self.bos]
            post = {"type": "TemplateProcessing",
                    "single": [{"SpecialToken": {"id": name, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
                    "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
                    "special_tokens": {name: {"id": name, "ids": [self.bos], "tokens": [name]}}}
        merges = [list(m) for m in self.merges] if pairs else [" ".join(m) for m in self.merges]
        return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added(self),
                "normalizer": {"type": "NFC"} if self.pre == "qwen2" else None,
                "pre_tokenizer": {"type": "Sequence", "pretokenizers": splits}, "post_processor": post,
                "decoder": dict(level, use_regex=True),
                "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": "",
                          "end_of_word_suffix": "", "fuse_unk": False, "byte_fallback": False,
                          "ignore_merges": self.pre == "llama-bpe",
                          "vocab": {t: i for i, t in enumerate(self.tokens[:self.n_plain])}, "merges": merges}}


class Pieces:
    """A vocabulary of the Gemma kind: scores in GGUF files, merges in tokenizer.json."""
    kind = "llama"
    bos_first, pre = True, None

    def __init__(self):
        self.tokens = ["<pad>", "<eos>", "<bos>", "<unk>"] + [f"<0x{b:02X}>" for b in range(256)]
        self.types = [3, 3, 3, 2] + [6] * 256
        self.scores = [0.0] * 260
        self.bos, self.eos = 2, 1
        for text in ("\n\n", "  ", "   ", "<code>", "</code>"):  # user-defined: matched in any text
            self.add(text, 4, 0.0)
        self.controls = ["<start_of_turn>", "<end_of_turn>"]
        for text in self.controls:
            self.add(text, 3, 0.0)
        self.n_plain = len(self.tokens)
        for i, letter in enumerate("▁etaoinshrdlucmwfgypbvkxjqzETAOINSHRDLUCMWFGYPBVKXJQZ0123456789.,:;!?'\"-/()<>_|é"):
            self.add(letter, 1, -1000.0 - i)
        words = []
        for word in ["▁" + w for w in SAMPLE] + SAMPLE:
            words += [word[:n] for n in range(2, len(word) + 1) if word[:n] not in words]
        for rank, text in enumerate(words):
            self.add(text, 1, -1.0 - rank)
        known = set(self.tokens)
        self.merges = [(t[:n], t[n:]) for t in words for n in range(1, len(t)) if t[:n] in known and t[n:] in known]

    def add(self, text, kind, score):
        self.tokens.append(text)
        self.types.append(kind)
        self.scores.append(score)

    def gguf(self):
        return [("tokenizer.ggml.model", STRING, "llama"), ("tokenizer.ggml.pre", STRING, "default"),
                ("tokenizer.ggml.tokens", STRING, self.tokens), ("tokenizer.ggml.scores", FLOAT, self.scores),
                ("tokenizer.ggml.token_type", I32, self.types),
                ("tokenizer.ggml.bos_token_id", U32, 2), ("tokenizer.ggml.eos_token_id", U32, 1),
                ("tokenizer.ggml.unknown_token_id", U32, 3), ("tokenizer.ggml.padding_token_id", U32, 0),
                ("tokenizer.ggml.add_bos_token", BOOL, True), ("tokenizer.ggml.add_space_prefix", BOOL, False)]

    def json(self, pairs=True):
        post = {"type": "TemplateProcessing",
                "single": [{"SpecialToken": {"id": "<bos>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
                "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
                "special_tokens": {"<bos>": {"id": "<bos>", "ids": [2], "tokens": ["<bos>"]}}}
        return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added(self),
                "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
                "pre_tokenizer": {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious",
                                  "invert": False},
                "post_processor": post,
                "decoder": {"type": "Sequence", "decoders": [
                    {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
                    {"type": "ByteFallback"}, {"type": "Fuse"}]},
                "model": {"type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": None,
                          "end_of_word_suffix": None, "fuse_unk": True, "byte_fallback": True, "ignore_merges": False,
                          "vocab": {t: i for i, t in enumerate(self.tokens)},
                          "merges": [list(m) if pairs else " ".join(m) for m in self.merges]}}


def added(vocabulary):
    """added_tokens: what is matched in the text before anything else."""
    out = []
    for i, text in enumerate(vocabulary.tokens):
        control = text in vocabulary.controls or text in ("<pad>", "<eos>", "<bos>", "<unk>")
        user = isinstance(vocabulary, Pieces) and vocabulary.types[i] == 4
        if control or user:
            out.append({"id": i, "content": text, "single_word": False, "lstrip": False, "rstrip": False,
                        "normalized": False, "special": control})
    return out


CHATML = ("{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>'"
          " + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")
GEMMA = ("{{ bos_token }}{% for message in messages %}{% if message['role'] == 'assistant' %}{% set role = 'model' %}"
         "{% else %}{% set role = message['role'] %}{% endif %}{{ '<start_of_turn>' + role + '\n' + "
         "message['content'] | trim + '<end_of_turn>\n' }}{% endfor %}{% if add_generation_prompt %}"
         "{{ '<start_of_turn>model\n' }}{% endif %}")
LLAMA3 = ("{% for message in messages %}{% set content = '<|start_header_id|>' + message['role'] + "
          "'<|end_header_id|>\n\n'+ message['content'] | trim + '<|eot_id|>' %}{% if loop.index0 == 0 %}"
          "{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}"
          "{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}")
CONTROLS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


def vocabulary_of(arch):
    if arch == "gemma3":
        return Pieces(), GEMMA
    if arch == "qwen3":  # one with another split: digits up to three, whole words first, BOS
        return ByteLevel("qwen2", CONTROLS, eos="<|im_end|>"), CHATML
    if arch == "qwen2":
        return ByteLevel("qwen2", CONTROLS, eos="<|endoftext|>"), CHATML
    return ByteLevel("smollm", CONTROLS, eos="<|im_end|>", bos="<|im_start|>"), CHATML


def llama3_vocabulary():
    controls = ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"]
    return ByteLevel("llama-bpe", controls, bos=controls[0], eos=controls[4], bos_first=True), LLAMA3


# ---- GGUF

PARTS = {"input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
         "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm",
         "self_attn.k_norm": "attn_k_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
         "mlp.down_proj": "ffn_down", "post_feedforward_layernorm": "post_ffw_norm",
         "pre_feedforward_layernorm": "ffn_norm"}


def gguf_name(arch, name):
    stem, end = name.rsplit(".", 1)
    if not stem.startswith("model.layers."):
        return {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}[stem] + "." + end
    _, _, layer, part = stem.split(".", 3)
    if part == "post_attention_layernorm":
        return f"blk.{layer}." + ("post_attention_norm" if arch == "gemma3" else "ffn_norm") + "." + end
    return f"blk.{layer}.{PARTS[part]}.{end}"


def reordered(values, columns, dim):
    """Rows of q or k as llama's converter leaves them: new row 2i + s of a head is old row s d/2 + i."""
    out = []
    for head in range(0, len(values), dim * columns):
        for new in range(dim):
            old = (new % 2) * dim // 2 + new // 2
            out += values[head + old * columns:head + (old + 1) * columns]
    return out


def gguf_string(text):
    data = text if isinstance(text, bytes) else text.encode()
    return struct.pack("<Q", len(data)) + data


SCALARS = {0: "<B", 1: "<b", U16: "<H", 3: "<h", U32: "<I", I32: "<i", FLOAT: "<f", BOOL: "<B", U64: "<Q", 11: "<q",
           12: "<d"}


def gguf_value(kind, value):
    return gguf_string(value) if kind == STRING else struct.pack(SCALARS[kind], value)


def gguf_key(key, kind, value):
    """One entry of the metadata; a list is an array of that kind."""
    if isinstance(value, list):
        return (gguf_string(key) + struct.pack("<IIQ", ARRAY, kind, len(value)) +
                b"".join(gguf_value(kind, v) for v in value))
    return gguf_string(key) + struct.pack("<I", kind) + gguf_value(kind, value)


def gguf_info(name, dims, kind, offset):
    return gguf_string(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, offset)


def gguf_bytes(keys, tensors, version=3, align=32):
    """A whole file of keys (key, kind, value) and tensors (name, dims, kind, data)."""
    infos, data = [], bytearray()
    for name, dims, kind, content in tensors:
        infos.append(gguf_info(name, dims, kind, len(data)))
        data += content + bytes(-len(content) % align)
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(keys))
    head += b"".join(gguf_key(*k) for k in keys) + b"".join(infos)
    return head + bytes(-len(head) % align) + bytes(data)


def gguf_keys(model, vocabulary, template, name):
    a, m = model.arch, model.more
    keys = [("general.architecture", STRING, a), ("general.name", STRING, name),
            (f"{a}.block_count", U32, model.layers), (f"{a}.context_length", U32, m.get("context", 16384)),
            (f"{a}.embedding_length", U32, model.hidden), (f"{a}.feed_forward_length", U32, model.ff),
            (f"{a}.attention.head_count", U32, model.heads), (f"{a}.attention.head_count_kv", U32, model.kv),
            (f"{a}.attention.layer_norm_rms_epsilon", FLOAT, m.get("eps", 1e-6)),
            (f"{a}.rope.freq_base", FLOAT, m.get("theta", 10000.0))]
    if model.dim * model.heads != model.hidden:
        keys += [(f"{a}.attention.key_length", U32, model.dim), (f"{a}.attention.value_length", U32, model.dim)]
    if "window" in m:
        keys.append((f"{a}.attention.sliding_window", U32, m["window"]))
    if "yarn" in m:
        factor, original = m["yarn"]
        keys += [(f"{a}.rope.scaling.type", STRING, "yarn"), (f"{a}.rope.scaling.factor", FLOAT, factor),
                 (f"{a}.rope.scaling.original_context_length", U32, original)]
    if vocabulary:
        keys += vocabulary.gguf()
    if template:
        keys.append(("tokenizer.chat_template", STRING, template))
    return keys


def gguf_tensors(model, kind):
    out = []
    if "llama3" in model.more:
        factors = llama3_factors(model)
        out.append(("rope_freqs.weight", (len(factors),), F32, encode(factors, F32)))
    for name, (shape, values) in model.tensors.items():
        if model.arch == "llama" and name.split(".")[-2] in ("q_proj", "k_proj"):
            values = reordered(values, shape[1], model.dim)
        if model.arch == "gemma3" and "norm" in name:
            values = [1 + v for v in values]
        as_kind = kind if len(shape) == 2 else F32
        out.append((gguf_name(model.arch, name), tuple(reversed(shape)), as_kind, encode(values, as_kind)))
    return out


def llama3_factors(model):
    """Divisors of the frequencies, one a pair."""
    import math
    factor, low, high, original = model.more["llama3"]
    out = []
    for i in range(model.dim // 2):
        wave = 2 * math.pi * model.more["theta"] ** (2 * i / model.dim)
        smooth = (original / wave - low) / (high - low)
        out.append(1.0 if smooth > 1 else factor if smooth < 0 else 1 / ((1 - smooth) / factor + smooth))
    return out


def write(path, data):
    with open(path, "wb") as f:
        f.write(data if isinstance(data, bytes) else json.dumps(data, indent=1, ensure_ascii=False).encode())


def write_gguf(path, model, vocabulary, template, kind, version=3, name="tiny"):
    write(path, gguf_bytes(gguf_keys(model, vocabulary, template, name), gguf_tensors(model, kind), version))


def split_parts(model, vocabulary, template, kind, parts):
    """The bytes of each part of a split set; only the first has the keys of the model."""
    tensors = gguf_tensors(model, kind)
    out, each = [], -(-len(tensors) // parts)
    for i in range(parts):
        keys = gguf_keys(model, vocabulary, template, "tiny") if i == 0 else []
        keys += [("split.no", U16, i), ("split.count", U16, parts), ("split.tensors.count", I32, len(tensors))]
        out.append(gguf_bytes(keys, tensors[i * each:(i + 1) * each]))
    return out


# ---- folders of Hugging Face

CLASSES = {"llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM",
           "gemma3": "Gemma3ForCausalLM"}


def config(model, vocabulary, modern, kind):
    m = model.more
    out = {"architectures": [CLASSES[model.arch]], "model_type": "gemma3_text" if model.arch == "gemma3" else model.arch,
           "hidden_size": model.hidden, "intermediate_size": model.ff, "num_hidden_layers": model.layers,
           "num_attention_heads": model.heads, "num_key_value_heads": model.kv, "vocab_size": model.n_vocab,
           "max_position_embeddings": m.get("context", 16384), "rms_norm_eps": m.get("eps", 1e-6),
           "tie_word_embeddings": model.tied, "eos_token_id": vocabulary.eos, "bos_token_id": vocabulary.bos,
           "attention_dropout": 0.0, "initializer_range": 0.02, "use_cache": True}
    names = {F32: "float32", F16: "float16", BF16: "bfloat16"}
    out["dtype" if modern else "torch_dtype"] = names[kind]
    out["transformers_version"] = "5.2.0" if modern else "4.44.0"
    if model.arch in ("qwen3", "gemma3"):
        out["head_dim"] = model.dim
    if model.arch != "gemma3":
        out["hidden_act"] = "silu"
    if model.arch in ("llama", "qwen3"):
        out["attention_bias"] = False
    if model.arch in ("qwen2", "qwen3"):
        out.update(use_sliding_window=False, sliding_window=None if modern else 4096, max_window_layers=model.layers)
    scaling = None
    if "llama3" in m:
        factor, low, high, original = m["llama3"]
        scaling = {"rope_type": "llama3", "factor": factor, "low_freq_factor": low, "high_freq_factor": high,
                   "original_max_position_embeddings": original}
    if "yarn" in m:
        factor, original = m["yarn"]
        scaling = {"rope_type" if modern else "type": "yarn", "factor": factor,
                   "original_max_position_embeddings": original}
    theta = m.get("theta", 10000.0)
    if model.arch == "gemma3":
        out.update(hidden_activation="gelu_pytorch_tanh", attention_bias=False, sliding_window=m["window"],
                   query_pre_attn_scalar=model.dim, final_logit_softcapping=None, attn_logit_softcapping=None)
        if modern:
            out["layer_types"] = ["full_attention" if i % 6 == 5 else "sliding_attention" for i in range(model.layers)]
            out["rope_parameters"] = {"full_attention": {"rope_type": "default", "rope_theta": theta},
                                      "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}}
        else:
            out.update(rope_theta=theta, rope_local_base_freq=10000.0, rope_scaling=None, sliding_window_pattern=6)
    elif modern:
        out["rope_parameters"] = dict(scaling or {"rope_type": "default"}, rope_theta=theta)
    else:
        out.update(rope_theta=theta, rope_scaling=scaling)
    return out


def safetensors_bytes(tensors, kind):
    """One safetensors file of (name, shape, values) in a type."""
    header, data = {"__metadata__": {"format": "pt"}}, bytearray()
    for name, shape, values in tensors:
        content = encode(values, kind)
        header[name] = {"dtype": DTYPE[kind], "shape": list(shape), "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + bytes(data)


def write_folder(path, model, vocabulary, template, kind, modern=False, shards=1, pairs=True):
    os.makedirs(path)
    at = lambda name: os.path.join(path, name)
    tensors = [(n, s, v) for n, (s, v) in model.tensors.items()]
    if shards == 1:
        write(at("model.safetensors"), safetensors_bytes(tensors, kind))
    else:
        weight_map, each, total = {}, -(-len(tensors) // shards), 0
        for i in range(shards):
            name = f"model-{i + 1:05}-of-{shards:05}.safetensors"
            mine = tensors[i * each:(i + 1) * each]
            write(at(name), safetensors_bytes(mine, kind))
            weight_map.update({n: name for n, _, _ in mine})
            total += sum(len(v) for _, _, v in mine) * (4 if kind == F32 else 2)
        write(at("model.safetensors.index.json"), {"metadata": {"total_size": total}, "weight_map": weight_map})
    write(at("config.json"), config(model, vocabulary, modern, kind))
    write(at("tokenizer.json"), vocabulary.json(pairs))
    name = lambda i: None if i is None else vocabulary.tokens[i]
    settings = {"bos_token": name(vocabulary.bos), "eos_token": name(vocabulary.eos), "model_max_length": 16384,
                "tokenizer_class": "PreTrainedTokenizerFast", "add_bos_token": vocabulary.bos_first}
    if modern:
        write(at("chat_template.jinja"), template.encode())
    else:
        settings["chat_template"] = template
    write(at("tokenizer_config.json"), settings)
    write(at("generation_config.json"), {"eos_token_id": [vocabulary.eos], "bos_token_id": vocabulary.bos,
                                         "do_sample": False})


MORE = {"llama": {"theta": 10000.0, "eps": 1e-5}, "qwen2": {"theta": 1e6}, "qwen3": {"theta": 1e6},
        "gemma3": {"theta": 1e6, "window": 8}}


def good(folder, archs):
    for arch in archs:
        vocabulary, template = vocabulary_of(arch)
        n = -(-len(vocabulary.tokens) // 32) * 32  # more rows than tokens
        model = Model(arch, arch in ("qwen3", "gemma3"), n, **MORE[arch])
        at = os.path.join(folder, arch)
        for kind, name in ((F32, "f32"), (F16, "f16"), (BF16, "bf16"), (Q8_0, "q8")):
            write_gguf(f"{at}-{name}.gguf", model, vocabulary, template, kind, 2 if kind == F16 else 3)
        for i, data in enumerate(split_parts(model, vocabulary, template, F32, 3)):
            write(f"{at}-split-{i + 1:05}-of-00003.gguf", data)
        write_folder(f"{at}-f32", model, vocabulary, template, F32)
        write_folder(f"{at}-f16", model, vocabulary, template, F16, modern=True, pairs=False)
        write_folder(f"{at}-bf16", model, vocabulary, template, BF16, modern=True, shards=3)
        four = Model(arch, arch != "llama", n, blocks=Q4_0, seed=2, **MORE[arch])
        write_gguf(f"{at}-q4.gguf", four, vocabulary, template, Q4_0)
        write_folder(f"{at}-q4", four, vocabulary, template, BF16, shards=2)
    if "llama" in archs:  # frequency factors, a vocabulary with BOS, tied
        vocabulary, template = llama3_vocabulary()
        n = -(-len(vocabulary.tokens) // 32) * 32
        model = Model("llama", True, n, seed=3, theta=500000.0, llama3=(8.0, 1.0, 4.0, 64))
        write_gguf(os.path.join(folder, "llama3-f32.gguf"), model, vocabulary, template, F32)
        write_folder(os.path.join(folder, "llama3-f32"), model, vocabulary, template, F32)
        write_folder(os.path.join(folder, "llama3-bf16"), model, vocabulary, template, BF16, modern=True, shards=2)
    if "qwen2" in archs:
        vocabulary, template = vocabulary_of("qwen2")
        model = Model("qwen2", False, -(-len(vocabulary.tokens) // 32) * 32, seed=4, theta=1e6, yarn=(4.0, 64))
        write_gguf(os.path.join(folder, "yarn-f32.gguf"), model, vocabulary, template, F32)
        write_folder(os.path.join(folder, "yarn-f32"), model, vocabulary, template, F32)
        write_folder(os.path.join(folder, "yarn-bf16"), model, vocabulary, template, BF16, modern=True)


def size(folder):
    vocabulary, template = vocabulary_of("llama")
    n = -(-len(vocabulary.tokens) // 32) * 32
    model = Model("llama", True, n, shape=(128, 256, 2, 4, 2, 32))
    write_gguf(os.path.join(folder, "size.gguf"), model, vocabulary, template, Q8_0)
    vocabulary, template = vocabulary_of("gemma3")
    n = -(-len(vocabulary.tokens) // 32) * 32
    model = Model("gemma3", True, n, theta=1e6, window=64, context=32768)
    write_folder(os.path.join(folder, "size-gemma3"), model, vocabulary, template, BF16)


if __name__ == "__main__":
    if sys.argv[1] == "good":
        good(sys.argv[2], sys.argv[3:] or list(SHAPES))
    else:
        size(sys.argv[2])
