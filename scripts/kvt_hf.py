#!/usr/bin/env python3
"""Records a trace from a transformers model, through hooks, and hands it to `kvt import`.

    scripts/kvt_hf.py --model FOLDER --prompt TEXT --out trace.h5
    scripts/kvt_hf.py --model model.gguf --tokens-of other.h5 --out same.h5 --device cuda

For models that kvt itself does not run, and to hold kvt's own capture against another program. Needs torch,
transformers (4.48 or later), numpy, and `kvt` on the path or in --kvt; h5py for --tokens-of only.

What is recorded: queries, keys and values as the attention function receives them (after RoPE), the residual
before each layer, the input of its projections, the logits. Attention is computed again from queries and keys,
in f32 and tile by tile, never T x T, whatever the model's own kernel does.

What hooks cannot see is left out of the manifest and said on standard error: the identity of the weights
(weights_digest), norms of W_O v where the output matrix is quantised or has another name (the level is then
summary), the text where the tokenizer's tokens have no bytes, rotary facts of a scaling that kvt has no name for.
Refused, because a trace would say something that is not so: soft caps, attention sinks, rotation of a part of
a head, keys and values of different widths, layers of different shapes. Checked against kvt's own capture:
llama, qwen2, qwen3, gemma3; others are recorded with a warning.
"""
import argparse
import json
import math
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # files only: nothing is fetched
import numpy as np
import torch
import transformers
from transformers import AttentionInterface, AttentionMaskInterface, AutoModelForCausalLM, AutoTokenizer

CHECKED = ("llama", "mistral", "qwen2", "qwen3", "gemma3")
TAIL, SKIP, TOP, SCALE = 64, 4, 64, 1024  # stored queries, rows that moments leave out, logits, attn/block_sum
SPECIAL, TEMPLATE, SYSTEM, RESPONSE = 1, 2, 4, 8  # bits of token/flag
TILE_BYTES = 256 << 20  # of one tile of attention


def say(text):
    print("kvt_hf: " + text, file=sys.stderr)


def stop(text):
    sys.exit("kvt_hf: " + text)


# ---- the model, watched ------------------------------------------------------------------------------------


class Seen:
    """What hooks have kept: of each recorded layer the pieces of q, k, v ([heads, tokens, D]), norms of the
    residual and, where it is wanted, the input of the projections; in the order of the tokens."""

    def __init__(self, layers, hidden):
        self.layers, self.keep_hidden = layers, hidden
        self.q, self.k, self.v, self.raw, self.norm, self.x = ({} for _ in range(6))
        self.window, self.scale, self.turn = {}, {}, {}

    def add(self, kind, layer, piece):
        getattr(self, kind).setdefault(layer, []).append(piece.detach().float().cpu())

    def get(self, kind, layer, dim):
        return torch.cat(getattr(self, kind)[layer], dim)

    def attention(self, module, query, key, value, mask, scaling=None, sliding_window=None, **more):
        """In the place of the attention function: keeps what it is given, then calls PyTorch's."""
        for name in ("softcap", "s_aux", "sinks"):
            if more.get(name) is not None:
                stop(f"{type(module).__name__} attends with '{name}': a trace cannot say that")
        layer, n = module.layer_idx, query.shape[2]
        if key.shape[3] != value.shape[3] or query.shape[0] != 1:
            stop(f"keys of {key.shape[3]} and values of {value.shape[3]} channels in {query.shape[0]} sequences:"
                 " expected one sequence and equal widths")
        scaling = query.shape[3] ** -0.5 if scaling is None else scaling
        self.window[layer], self.scale[layer] = int(sliding_window or 0), float(scaling)
        if layer in self.layers:
            for kind, x in (("q", query), ("k", key), ("v", value)):
                self.add(kind, layer, x[0, :, -n:])
            if layer in self.turn:
                self.add("raw", layer, turned_back(query[0].float(), *self.turn[layer]))
        return transformers.modeling_utils.ALL_ATTENTION_FUNCTIONS["sdpa"](
            module, query, key, value, mask, scaling=scaling, sliding_window=sliding_window, **more)


def turned_back(q, cos, sin):
    """Queries before the rotation, from those behind it; cos and sin may carry a factor (yarn)."""
    half = q.shape[-1] // 2
    c, s = cos[0].float()[:, :half], sin[0].float()[:, :half]
    a, b, norm = q[..., :half], q[..., half:], c * c + s * s
    return torch.cat([(a * c + b * s) / norm, (b * c - a * s) / norm], -1)


def argument(args, kwargs, name):
    return kwargs.get(name, args[0] if args and name == "hidden_states" else None)


def watch(model, seen):
    """Hooks on every decoder layer and its attention; returns the attention modules by layer."""
    modules, found = dict(model.named_modules()), {}
    for name, module in modules.items():
        if hasattr(module, "layer_idx") and "attn" in name.rsplit(".", 1)[-1] and hasattr(module, "q_proj"):
            found[module.layer_idx] = (module, modules[name.rsplit(".", 1)[0]])
    if sorted(found) != list(range(len(found))) or not found:
        stop(f"{type(model).__name__}: found no attention modules with layer_idx and q_proj, one a layer")

    def on_layer(index):
        def hook(module, args, kwargs):
            seen.add("norm", index, argument(args, kwargs, "hidden_states")[0].float().norm(dim=-1))
        return hook

    def on_attention(index):
        def hook(module, args, kwargs):
            if argument(args, kwargs, "position_embeddings") is not None:
                seen.turn[index] = kwargs["position_embeddings"]
                width = seen.turn[index][0].shape[-1]
                if width != head_dim(module):
                    stop(f"rotation of {width} of {head_dim(module)} channels of a head: kvt has no trace of that")
            if seen.keep_hidden:
                seen.add("x", index, argument(args, kwargs, "hidden_states")[0])
        return hook

    for index in seen.layers:
        if index not in found:
            stop(f"no layer {index}: the model has {len(found)}")
        found[index][1].register_forward_pre_hook(on_layer(index), with_kwargs=True)
        found[index][0].register_forward_pre_hook(on_attention(index), with_kwargs=True)
    return {i: m for i, (m, _) in found.items()}


def head_dim(module):
    return int(module.head_dim)


# ---- tokens ------------------------------------------------------------------------------------------------


def byte_table():
    """Bytes of the characters that byte-level vocabularies write them with: printable ones are themselves,
    the others follow from U+0100 on."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    other = [b for b in range(256) if b not in plain]
    return {chr(c): b for b, c in [(b, b) for b in plain] + [(b, 256 + i) for i, b in enumerate(other)]}


def bytes_of(tokenizer):
    """A function from a token to its bytes; None where the vocabulary does not say."""
    added = {i: t.content.encode() for i, t in tokenizer.added_tokens_decoder.items()}
    try:
        rules = json.loads(tokenizer.backend_tokenizer.to_str())
    except AttributeError:
        return None
    table = byte_table()
    name = tokenizer.convert_ids_to_tokens

    def byte_level(i):
        return added[i] if i in added else bytes(table[c] for c in name(i))

    def sentence_piece(i):
        text = added[i].decode() if i in added else name(i)
        if len(text) == 6 and text.startswith("<0x"):
            return bytes([int(text[3:5], 16)])
        return text.replace("\u2581", " ").encode() if i not in added else added[i]

    if '"ByteLevel"' in json.dumps(rules.get("pre_tokenizer")):
        return byte_level
    return sentence_piece if "<0x00>" in tokenizer.get_vocab() else None


def special_ids(tokenizer):
    """Control tokens: those with a role, and what was added as special without one (<|im_start|>)."""
    return set(tokenizer.all_special_ids) | {i for i, t in tokenizer.added_tokens_decoder.items() if t.special}


class Tokens:
    """Ids of the prompt and, once it is there, of the response; flags, text, and ranges in tokens."""

    def __init__(self, ids, flag, raw, facts):
        self.ids, self.flag, self.raw, self.facts = list(ids), list(flag), raw, facts
        self.given, self.n_prompt, self.bytes = [], len(ids), None

    def offsets(self):
        return np.concatenate([[0], np.cumsum([len(b) for b in self.bytes])]).astype(np.int64)

    def range(self, text):
        """Tokens that lie in or across the last place of a text in the prompt."""
        offset = self.offsets()[:self.n_prompt + 1]
        begin = b"".join(self.bytes[:self.n_prompt]).rfind(text.encode())
        if begin < 0:
            return None
        first = int(np.searchsorted(offset, begin, "right")) - 1
        return [first, int(np.searchsorted(offset, begin + len(text.encode()), "left"))]


def prompt_tokens(tokenizer, o):
    """Tokens of --prompt: with the tokenizer's chat template, or raw."""
    special = special_ids(tokenizer)
    if o.raw:
        ids = tokenizer(o.prompt)["input_ids"]
        text, places = o.prompt, []
    else:
        if not tokenizer.chat_template:
            stop("the tokenizer has no chat template: give --raw")
        messages = [{"role": "system", "content": o.system}] if o.system is not None else []
        messages.append({"role": "user", "content": o.prompt})
        text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        ids, places = encoded["input_ids"], encoded["offset_mapping"]
    flag = [SPECIAL if i in special else 0 for i in ids]
    facts = {"template": "" if o.raw else "tokenizer's own"}
    if places:
        user, system = text.rfind(o.prompt.strip()), text.find((o.system or "").strip()) if o.system else -1
        inside = [(user, user + len(o.prompt.strip()), 0)]
        if system >= 0:
            inside.append((system, system + len(o.system.strip()), SYSTEM))
        for t, (begin, end) in enumerate(places):
            within = [bit for a, b, bit in inside if a >= 0 and begin < b and end > a]
            flag[t] |= within[0] if within else TEMPLATE
        first = min(a for a, _, _ in inside if a >= 0)
        facts["prefix_end"] = sum(end <= first for _, end in places)
        of_system = [t for t in range(len(ids)) if flag[t] & SYSTEM]
        if of_system:
            facts["system_begin"], facts["system_end"] = of_system[0], of_system[-1] + 1
        if any(tokenizer.convert_ids_to_tokens(i) in o.prompt for i in special):
            say("the prompt holds text of special tokens: the tokenizer takes it for them")
    return Tokens(ids, flag, o.prompt.encode(), facts)


def trace_tokens(path):
    """Prompt and response of a trace that is there; the response is given, not generated."""
    import h5py
    with h5py.File(path) as f:
        at = f["token"].attrs
        n, ids = int(at["n_prompt"]), f["token/id"][...].tolist()
        facts = {k: int(at[k]) for k in ("prefix_end", "system_begin", "system_end")}
        for k in ("template", "template_digest"):
            facts[k] = at[k].decode() if isinstance(at[k], bytes) else str(at[k])
        t = Tokens(ids[:n], f["token/flag"][:n].tolist(), None, facts)
        t.given, t.flag_given = ids[n:], f["token/flag"][n:].tolist()
        if "text/bytes" in f:
            text, offset = f["text/bytes"][...].tobytes(), f["token/offset"][...]
            t.bytes = [text[a:b] for a, b in zip(offset, offset[1:])]
            t.raw = f["text/raw"][...].tobytes() if "text/raw" in f else b""
    return t


# ---- the run -----------------------------------------------------------------------------------------------


def pick(z, o, random):
    """The next token of a row of logits."""
    if o.temperature == 0:
        return int(z.argmax())
    p = torch.softmax(z.double() / o.temperature, -1)
    order = torch.argsort(p, descending=True)
    p = p[order]
    if o.top_k:
        p[o.top_k:] = 0
    p[torch.cumsum(p, 0) - p >= o.top_p * p.sum()] = 0
    return int(order[torch.multinomial(p / p.sum(), 1, generator=random)])


def stop_tokens(model, tokenizer):
    eos = model.generation_config.eos_token_id
    eos = [] if eos is None else [eos] if isinstance(eos, int) else list(eos)
    return set(eos) | ({tokenizer.eos_token_id} if tokenizer and tokenizer.eos_token_id is not None else set())


@torch.no_grad()
def run(model, tokens, ends, n_vocab, o):
    """Prefill, then each response token through the cache, the stop token too. Rows of /logit, of the first
    n_vocab logits: rows of the embedding above the vocabulary are padding."""
    random = torch.Generator().manual_seed(o.seed)
    rows = {"id": [], "logp": [], "nll": [], "entropy": []}
    most = len(tokens.given) if tokens.given else o.max_new
    step, past, reason = torch.tensor([tokens.ids], device=model.device), None, "none" if most == 0 else "length"
    for m in range(most + 1):
        out = model(step, past_key_values=past, use_cache=True, logits_to_keep=1)
        if m == most or reason == "stop-token":
            break
        past, z = out.past_key_values, out.logits[0, -1, :n_vocab].float().cpu()
        token = tokens.given[m] if tokens.given else pick(z, o, random)
        logp = torch.log_softmax(z.double(), -1)
        order = torch.sort(-z, stable=True).indices[:TOP]
        rows["id"].append(order.numpy())
        rows["logp"].append(logp[order].numpy())
        rows["nll"].append(-float(logp[token]))
        rows["entropy"].append(-float((logp.exp() * logp).nan_to_num().sum()))
        tokens.ids.append(token)
        reason = "stop-token" if token in ends and not tokens.given else reason
        step = torch.tensor([[token]], device=model.device)
    return rows, "forced" if tokens.given else reason


# ---- attention, once more ----------------------------------------------------------------------------------


def block_length(lanes, N, T, limit=512 << 20):
    """As kvt has it: the smallest power of two from 64 whose sums take at most `limit` bytes."""
    block = 64
    while block < T and lanes * (math.ceil(N / block) + math.ceil((T - N) / block)) * T * 2 > limit:
        block *= 2
    return block


def sums(q, k, scale, window, N, delay, starts, device):
    """Of one layer, from q [H T D] and k [G T D]: what each query summed, and what each key got."""
    H, T, _ = q.shape
    q, k = q.to(device), k.to(device)
    group = H // k.shape[0]
    tile = max(1, min(1024, TILE_BYTES // (4 * H * T)))
    zero = dict(device=device, dtype=torch.float64)
    col, future, late = (torch.zeros(H, n, **zero) for n in (N, N, T))
    col_max, future_max = (torch.zeros(H, N, device=device) for _ in range(2))
    lse = torch.zeros(H, T, device=device)
    block_sum, block_max = (torch.zeros(H, len(starts) - 1, T, device=device) for _ in range(2))
    key = torch.arange(T, device=device)
    for j, (begin, end) in enumerate(zip(starts, starts[1:])):
        for p in range(begin, end, tile):
            pos = torch.arange(p, min(p + tile, end), device=device)
            z = torch.einsum("ghqd,gkd->ghqk", q[:, pos].unflatten(0, (-1, group)), k).flatten(0, 1) * scale
            far = pos[:, None] - key[None, :]
            z = z.masked_fill((far < 0) | ((far >= window) if window else False), -torch.inf)
            lse[:, pos] = torch.logsumexp(z, -1)
            a = torch.exp(z - lse[:, pos, None])
            total, top = a.sum(1, dtype=torch.float64), a.amax(1)
            late += (a * (far >= delay)).sum(1, dtype=torch.float64)
            block_sum[:, j] += total.float()
            block_max[:, j] = torch.maximum(block_max[:, j], top)
            into, into_max = (col, col_max) if p < N else (future, future_max)
            into += total[:, :N]
            torch.maximum(into_max, top[:, :N], out=into_max)
        block_sum[:, j] *= SCALE / (end - begin)
    n_late = (T - delay - key).clamp(min=0)
    out = {"attn/lse": lse, "attn/col_sum": col, "attn/col_max": col_max, "attn/block_sum": block_sum,
           "attn/block_max": block_max, "future/delayed": torch.log(late / n_late)}
    if T > N:
        out.update({"future/mean": future / (T - N), "future/max": future_max})
    return {path: x.cpu().numpy() for path, x in out.items()}


def moments(raw, N):
    """Mean, covariance and pair magnitudes of the prompt's queries before RoPE, raw [H T D]."""
    x = raw[:, min(SKIP, N - 1) if N <= SKIP else SKIP:N].double()
    half, centred = x.shape[-1] // 2, x - x.mean(1, keepdim=True)
    return {"query/mean": x.mean(1), "query/cov": centred.transpose(1, 2) @ centred / x.shape[1],
            "query/freq_abs": torch.hypot(x[..., :half], x[..., half:]).mean(1)}


def value_norms(v, w, H):
    """L1 and L2 norms of W_O v for each query head, v [G T D], w [E, H D]: a head at a time."""
    out = [[], []]
    for h in range(H):
        y = v[h // (H // v.shape[0])].to(w) @ w[:, h * v.shape[-1]:(h + 1) * v.shape[-1]].T
        for i, p in enumerate((1, 2)):
            out[i].append(y.float().norm(p, dim=-1).cpu())
    return {"value/wo_l1": torch.stack(out[0]), "value/wo_l2": torch.stack(out[1])}


# ---- the manifest ------------------------------------------------------------------------------------------


class Arrays:
    """One .npy a dataset, written a layer at a time."""

    TYPES = {"kv/k": "<f2", "kv/v": "<f2", "query/q": "<f2", "attn/block_sum": "<f2", "attn/block_max": "<f2",
             "hidden/x": "<f2", "token/id": "<i4", "token/flag": "|u1", "token/offset": "<i8", "logit/id": "<i4",
             "layer/id": "<i4", "query/pos": "<i4", "attn/block_start": "<i4", "text/bytes": "|u1", "text/raw": "|u1"}

    def __init__(self, folder, n_layer):
        self.folder, self.n_layer, self.open, self.names = folder, n_layer, {}, {}

    def file(self, path):
        self.names[path] = path.replace("/", "_") + ".npy"
        return os.path.join(self.folder, self.names[path])

    def put(self, path, x):
        np.save(self.file(path), np.ascontiguousarray(x, self.TYPES.get(path, "<f4")))

    def put_layer(self, index, path, x):
        x = np.asarray(x)
        dtype = self.TYPES.get(path, "<f4")
        if dtype == "<f2" and not (np.abs(x) <= 65504).all():
            stop(f"{path}: {np.abs(x).max():g} is beyond a half's 65504")
        if path not in self.open:
            self.open[path] = np.lib.format.open_memmap(self.file(path), "w+", dtype, (self.n_layer, *x.shape))
        self.open[path][index] = x


def rope_facts(config, model, local):
    """What /model says of the rotation; None for a scaling that kvt has no name for."""
    rope = getattr(config, "rope_parameters", None) or dict(getattr(config, "rope_scaling", None) or {},
                                                            rope_theta=getattr(config, "rope_theta", 10000.0))
    near = {}
    if "full_attention" in rope:  # a base for each kind of layer
        rope, near = rope["full_attention"], rope.get("sliding_attention") or {}
    theta_local = near.get("rope_theta") or getattr(config, "rope_local_base_freq", None)
    kind = rope.get("rope_type", rope.get("type", "default"))
    modules = [m for name, m in model.named_modules() if name.endswith("rotary_emb")]
    freq = next((getattr(m, a) for m in modules for a in ("full_attention_inv_freq", "inv_freq")
                 if hasattr(m, a)), None)
    if kind not in ("default", "linear", "llama3", "yarn") or freq is None:
        return None
    factor = next((getattr(m, a) for m in modules for a in ("full_attention_attention_scaling", "attention_scaling")
                   if hasattr(m, a)), 1.0)
    facts = {"rope_type": "none" if kind == "default" else kind, "rope_theta": float(rope["rope_theta"]),
             "rope_factor": float(rope.get("factor") or 1), "rope_attn_factor": float(factor),
             "rope_original": int(rope.get("original_max_position_embeddings") or 0),
             "rope_freq": freq.double().cpu().tolist()}
    if local and theta_local:
        facts["rope_theta_local"] = float(theta_local)
    return facts


def model_facts(model, seen, modules, o):
    """/model of the trace, from the configuration and from what the attention was called with."""
    config = model.config.get_text_config()
    L, some = len(modules), seen.layers[0]
    kind = config.model_type.removesuffix("_text")
    if kind not in CHECKED:
        say(f"{kind} was not checked against kvt's own capture ({', '.join(CHECKED)} were)")
    shapes = {(x[0].shape[0], x[0].shape[2]) for d in (seen.q, seen.k) for x in d.values()}
    if len({s for _, s in shapes}) != 1 or len({x[0].shape[0] for x in seen.k.values()}) != 1:
        stop(f"layers of different shapes: {sorted(shapes)}")
    if len(set(seen.scale.values())) != 1:
        stop("layers of different attention scales: a trace holds one")
    if len(seen.window) != L:
        stop(f"{L - len(seen.window)} of {L} layers never called the attention function: they cannot be recorded")
    embed = model.get_input_embeddings()
    scale = getattr(embed, "embed_scale", None)
    windows = [seen.window[i] for i in range(L)]
    facts = {"name": os.path.basename(os.path.abspath(o.model))[:63], "arch": "llama" if kind == "mistral" else kind,
             "n_layer": L, "n_head": seen.q[some][0].shape[0], "n_kv_head": seen.k[some][0].shape[0],
             "head_dim": seen.q[some][0].shape[2], "n_hidden": config.hidden_size, "n_vocab": embed.weight.shape[0],
             "n_ff": getattr(config, "intermediate_size", 0), "n_context": getattr(config, "max_position_embeddings", 0),
             "tied": int(model.get_output_embeddings().weight is embed.weight), "attn_scale": seen.scale[some],
             "norm_eps": float(getattr(config, "rms_norm_eps", getattr(config, "layer_norm_eps", 0))),
             "embed_scale": float(scale) if scale is not None else 1.0, "window": windows,
             "weights_type": str(embed.weight.dtype).removeprefix("torch.")}
    rope = rope_facts(config, model, any(windows))
    if rope is None:
        say("the rotation is of a kind that kvt has no name for: left out of the manifest")
    return {**facts, **(rope or {})}


def record(model, tokens, seen, modules, rows, folder, o):
    """Every array of the level, layer by layer. Returns the manifest's datasets."""
    N, T, L = tokens.n_prompt, len(tokens.ids), len(seen.layers)
    H = seen.q[seen.layers[0]][0].shape[0]
    block = block_length(L * H, N, T)
    starts = [*range(0, N, block), *range(N, T, block), T]
    first = 0 if o.queries == "all" or N < TAIL else N - TAIL
    summary = {"attn/lse", "attn/col_sum", "attn/col_max", "attn/block_sum", "future/mean", "future/max",
               "future/delayed"}
    level, w = o.level, {i: getattr(getattr(modules[i], "o_proj", None), "weight", None) for i in seen.layers}
    unseen = [i for i in seen.layers if w[i] is None or not w[i].is_floating_point()]
    if level != "summary" and (unseen or len(seen.raw) != L):
        say(f"{'W_O of layer %d' % unseen[0] if unseen else 'the rotation'} cannot be seen by hooks: level summary, "
            "without value/* and query/*")
        level = "summary"
    out = Arrays(folder, L)
    for l, i in enumerate(seen.layers):
        q, k, v = (seen.get(kind, i, 1) for kind in "qkv")
        data = sums(q, k, seen.scale[i], seen.window[i], N, o.delay, starts, model.device)
        if level != "full":
            del data["attn/block_max"]
        if level == "summary":
            data = {p: x for p, x in data.items() if p in summary}
        else:
            data.update({"kv/k": k, "kv/v": v, "query/q": q[:, first:], "hidden/norm": seen.get("norm", i, 0)})
            data.update(moments(seen.get("raw", i, 1), N))
            data.update(value_norms(v, w[i].detach(), H))
        if level == "full":
            data["hidden/x"] = seen.get("x", i, 0)
        for path, x in data.items():
            out.put_layer(l, path, x)
    out.put("layer/id", seen.layers)
    out.put("token/id", tokens.ids)
    out.put("token/flag", tokens.flag)
    out.put("attn/block_start", starts)
    if level != "summary":
        out.put("query/pos", range(first, T))
    for name, x in rows.items():
        out.put("logit/" + name, np.array(x).reshape(T - N, TOP) if name in ("id", "logp") else x)
    if tokens.bytes and not o.no_text:
        out.put("token/offset", tokens.offsets())
        out.put("text/bytes", np.frombuffer(b"".join(tokens.bytes), "u1"))
        if tokens.raw is not None:
            out.put("text/raw", np.frombuffer(tokens.raw, "u1"))
    return out.names, level, block


def spans_of(tokens, o):
    spans = {}
    for span in o.span:
        name, _, text = span.partition("=")
        spans[name] = tokens.range(text) if tokens.bytes else None
        if spans[name] is None:
            stop(f"span '{name}': its text is not in the prompt")
    return spans


def manifest(model, tokens, names, facts, level, block, reason, spans, tokenizer, o):
    token = {"n_prompt": tokens.n_prompt, "n_response": len(tokens.ids) - tokens.n_prompt, "stop_reason": reason,
             "bos": tokens.ids[0] == getattr(tokenizer, "bos_token_id", None), **tokens.facts}
    if spans:
        token["spans"] = spans
    sampling = "greedy" if o.temperature == 0 else f"temperature={o.temperature:g},top_p={o.top_p:g},top_k={o.top_k}"
    device = torch.cuda.get_device_name(model.device) if model.device.type == "cuda" else "cpu"
    return {"level": level, "seed": o.seed, "sampling": "forced" if tokens.given else sampling, "datasets": names,
            "writer": f"kvt_hf.py, torch {torch.__version__}, transformers {transformers.__version__}"[:63],
            "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "device": device[:63],
            "host": platform.node()[:63], "model": facts, "token": token, "future": {"delay": o.delay},
            "attn": {"block_tokens": block, "implementation": "computed again from q and k, in tiles",
                     "types": "scores f32, softmax f32, sums f64"}}


# ---- the program -------------------------------------------------------------------------------------------


def options():
    p = argparse.ArgumentParser(description="Records a trace from a transformers model.", epilog=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--model", required=True, help="a folder, or a GGUF file that transformers can read")
    p.add_argument("--prompt", help="the user's message")
    p.add_argument("--prompt-file", help="the same, from a file")
    p.add_argument("--tokens-of", metavar="TRACE.h5", help="prompt and response of this trace, by their ids")
    p.add_argument("--system", help="a system message")
    p.add_argument("--raw", action="store_true", help="no chat template")
    p.add_argument("--out", "-o", required=True, help="the trace to write")
    p.add_argument("--max-new", type=int, default=256)
    p.add_argument("--temperature", type=float, default=0.0, help="0: greedy")
    p.add_argument("--top-p", type=float, default=1.0)
    p.add_argument("--top-k", type=int, default=0, help="0: all")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--device", default="cpu", help="cpu, cuda, cuda:1")
    p.add_argument("--dtype", default="auto", choices=("auto", "float32", "bfloat16", "float16"))
    p.add_argument("--layers", help="as in 0-3,29; default all")
    p.add_argument("--level", default="replay", choices=("summary", "replay", "full"))
    p.add_argument("--queries", default="tail", choices=("tail", "all"))
    p.add_argument("--delay", type=int, default=256)
    p.add_argument("--span", action="append", default=[], metavar="NAME=TEXT", help="marks a text of the prompt")
    p.add_argument("--no-text", action="store_true")
    p.add_argument("--kvt", default="kvt", help="the program that imports")
    p.add_argument("--keep", metavar="FOLDER", help="leave arrays and manifest there")
    o = p.parse_args()
    if sum(x is not None for x in (o.prompt, o.prompt_file, o.tokens_of)) != 1:
        stop("expected one of --prompt, --prompt-file and --tokens-of")
    if o.prompt_file:
        with open(o.prompt_file, encoding="utf-8") as f:
            o.prompt = f.read()
    if os.path.exists(o.out):
        stop(f"'{o.out}' is there already")
    if not os.path.exists(o.model):
        stop(f"no model at '{o.model}': expected a folder or a GGUF file on this machine")
    return o


def layer_list(text, n):
    if text is None:
        return list(range(n))
    out = set()
    for part in text.split(","):
        a, _, b = part.partition("-")
        if not (a.isdecimal() and (b or a).isdecimal()):
            stop(f"--layers '{text}': expected numbers and ranges, as in 0-3,29")
        out.update(range(int(a), int(b or a) + 1))
    return sorted(out)


def load(o):
    transformers.utils.logging.disable_progress_bar()
    folder, name = (o.model, None) if os.path.isdir(o.model) else os.path.split(os.path.abspath(o.model))
    more = {"gguf_file": name} if name else {}
    AttentionInterface.register("kvt_hf", transformers.modeling_utils.ALL_ATTENTION_FUNCTIONS["sdpa"])
    AttentionMaskInterface.register("kvt_hf", transformers.masking_utils.ALL_MASK_ATTENTION_FUNCTIONS["sdpa"])
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=o.dtype if o.dtype == "auto" else
                                                 getattr(torch, o.dtype), attn_implementation="kvt_hf", **more)
    if name and o.tokens_of:  # ids are there, and the conversion of a large vocabulary takes minutes
        return model.eval().to(o.device), None
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, **more)
    except (OSError, ValueError) as e:
        stop(f"no tokenizer: {e}")
    if name:
        say("the tokenizer is transformers' own conversion of the GGUF file, which may split text otherwise")
    return model.eval().to(o.device), tokenizer


def main():
    o = options()
    model, tokenizer = load(o)
    seen = Seen(layer_list(o.layers, model.config.get_text_config().num_hidden_layers), o.level == "full")
    AttentionInterface.register("kvt_hf", seen.attention)
    modules = watch(model, seen)
    tokens = trace_tokens(o.tokens_of) if o.tokens_of else prompt_tokens(tokenizer, o)
    spell = bytes_of(tokenizer) if tokenizer and not tokens.bytes and not o.tokens_of else None
    if spell:
        tokens.bytes = [spell(i) for i in tokens.ids]
    spans = spans_of(tokens, o)
    rows, reason = run(model, tokens, stop_tokens(model, tokenizer), len(tokenizer) if tokenizer else None, o)
    special = special_ids(tokenizer) if tokenizer else set()
    new = tokens.ids[tokens.n_prompt:]
    tokens.flag += tokens.flag_given if tokens.given else [RESPONSE | (SPECIAL if i in special else 0) for i in new]
    if spell:
        tokens.bytes = [spell(i) for i in tokens.ids]
    elif not tokens.bytes:
        say("the tokens' bytes are not known: the text is left out")
    say("weights_digest is left out: hooks see no file")
    facts = model_facts(model, seen, modules, o)
    folder = o.keep or tempfile.mkdtemp(dir=os.path.dirname(os.path.abspath(o.out)), prefix=".kvt_hf.")
    try:
        os.makedirs(folder, exist_ok=True)
        names, level, block = record(model, tokens, seen, modules, rows, folder, o)
        path = os.path.join(folder, "manifest.json")
        with open(path, "w", encoding="utf-8") as f:
            json.dump(manifest(model, tokens, names, facts, level, block, reason, spans, tokenizer, o), f, indent=1)
        return subprocess.run([o.kvt, "import", path, "-o", o.out], check=False).returncode
    finally:
        if not o.keep:
            shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(main())
