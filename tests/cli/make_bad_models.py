#!/usr/bin/env python3
"""Model files with one defect each, for test_models.sh; make_models.py has the pieces.

make_bad_models.py FOLDER: writes FOLDER/NAME.gguf and FOLDER/NAME/, and prints a line a case:
    model TAB exit status TAB texts that the one line of error holds, separated by ";;"   (status 0: it loads)
A text that begins with "!" must not be there.
"""
import copy
import os
import shutil
import struct
import sys

from make_models import (ARRAY, BOOL, CHATML, CONTROLS, F32, FLOAT, I32, Q4_0, STRING, U16, U32, U64, ByteLevel, Model,
                         Pieces, config, encode, gguf_bytes, gguf_info, gguf_key, gguf_keys, gguf_string,
                         gguf_tensors, safetensors_bytes, split_parts, write, write_folder)

SMALL = (32, 32, 1, 2, 1, 16)
out = sys.argv[1]
vocabulary = ByteLevel("smollm", CONTROLS, eos="<|im_end|>")
N = -(-len(vocabulary.tokens) // 32) * 32
model = Model("llama", True, N, shape=SMALL, seed=7)
KEYS = gguf_keys(model, vocabulary, CHATML, "small")
TENSORS = gguf_tensors(model, F32)


def row(path, texts, status=1):
    print(f"{path}\t{status}\t{';;'.join(texts)}")


# ---- GGUF


def keys_with(**changes):
    """The keys with some changed: A__B is A.B; None leaves a key out; a (kind, value) adds one that is not there."""
    keys, names = list(KEYS), [k[0] for k in KEYS]
    for name, change in changes.items():
        name = name.replace("__", ".")
        if name in names:
            i = [k[0] for k in keys].index(name)
            keys[i:i + 1] = [] if change is None else [(name, *(change if isinstance(change, tuple)
                                                                 else (keys[i][1], change)))]
        else:
            keys.append((name, *change))
    return keys


def gguf(name, data, *texts, status=1):
    write(os.path.join(out, name + ".gguf"), data)
    row(name + ".gguf", texts, status)


def with_keys(name, texts, status=1, **changes):
    gguf("key-" + name, gguf_bytes(keys_with(**changes), TENSORS), *texts, status=status)


def raw(n_key=None, keys=None, n_tensor=None, infos=None, version=3, magic=b"GGUF", data=None):
    """A file of which each part may be replaced."""
    offset, mine, body = 0, [], bytearray()
    for name, dims, kind, content in TENSORS:
        mine.append((name, dims, kind, offset))
        body += content + bytes(-len(content) % 32)
        offset = len(body)
    infos = mine if infos is None else infos(mine) if callable(infos) else infos
    text = b"".join(i if isinstance(i, bytes) else gguf_info(*i) for i in infos)
    keys = [gguf_key(*k) for k in KEYS] if keys is None else keys
    head = magic + struct.pack("<I", version) if isinstance(version, int) else magic + version
    head += struct.pack("<QQ", len(infos) if n_tensor is None else n_tensor, len(keys) if n_key is None else n_key)
    head += b"".join(keys) + text
    return head + bytes(-len(head) % 32) + bytes(body if data is None else data)


def bad_headers():
    gguf("empty", b"", "truncated")
    gguf("magic", raw(magic=b"GGUX"), "GGUF", "!truncated")
    for version in (0, 1, 4, 5):
        gguf(f"version-{version}", raw(version=version), f"version {version}", "!truncated")
    gguf("swapped-3", raw(version=b"\0\0\0\3"), "big-endian", "little-endian", "!truncated")
    gguf("swapped-2", raw(version=b"\0\0\0\2"), "big-endian", "!truncated")
    good = [gguf_key(*k) for k in KEYS]
    for what, count in (("2-63", 1 << 63), ("2-62", 1 << 62), ("minus-1", (1 << 64) - 1), ("2-40", 1 << 40)):
        gguf(f"n-key-{what}", raw(n_key=count), "key")
        gguf(f"n-tensor-{what}", raw(n_tensor=count), "tensor")
        sized = struct.pack("<Q", count)
        gguf(f"key-length-{what}", raw(keys=good[:1] + [sized + b"abc"] + good[1:]), "!'abc'")
        gguf(f"string-{what}", raw(keys=good + [gguf_string("note") + struct.pack("<I", STRING) + sized]), "'note'")
        for kind in (0, U32, STRING):
            gguf(f"array-{what}-of-{kind}",
                 raw(keys=good + [gguf_string("note") + struct.pack("<II", ARRAY, kind) + sized]), "'note'")
    deep = struct.pack("<IQ", ARRAY, 1) * 10000 + struct.pack("<IQI", U32, 1, 7)
    gguf("nested", raw(keys=good + [gguf_string("note") + struct.pack("<I", ARRAY) + deep]), "'note'", "!truncated")
    gguf("element-255", raw(keys=good + [gguf_string("note") + struct.pack("<IIQ", ARRAY, 255, 1) + b"x" * 8]),
         "'note'", "255")
    for kind in (13, 255, 1 << 31):
        gguf(f"value-type-{kind}", raw(keys=good + [gguf_string("note") + struct.pack("<I", kind) + b"x" * 8]),
             "'note'", str(kind))
    gguf("key-twice", raw(keys=good + [good[2]]), "'llama.block_count'", "!truncated")
    gguf("bool-2", raw(keys=good + [gguf_key("flag", BOOL, 2)]), status=0)


def bad_infos():
    def tensor(i=0, **change):
        def make(infos):
            name, dims, kind, offset = infos[i]
            return infos[:i] + [(change.get("name", name), change.get("dims", dims), change.get("kind", kind),
                                 change.get("offset", offset))] + infos[i + 1:]
        return make
    first = TENSORS[0][0]
    gguf("tensor-twice", raw(infos=tensor(1, name=first)), f"'{first}'", "!truncated")
    gguf("name-64", raw(infos=tensor(name="n" * 64)), "64", "!truncated")
    for n in (5, 9):
        gguf(f"dims-{n}", raw(infos=tensor(dims=(1,) * n)), f"'{first}'", str(n), "!truncated")
    gguf("dims-max", raw(infos=lambda t: [gguf_string(first) + struct.pack("<I", 0xFFFFFFFF) + bytes(40)] + t[1:]),
         f"'{first}'", "4294967295", "!truncated")
    huge = (("product-63", (1 << 32, 1 << 31)), ("product-wraps", (1 << 62, 4)), ("product-64", (1 << 63, 1)),
            ("product-3", (1 << 40, 1 << 40, 1 << 40)))
    for name, dims in huge:
        gguf(name, raw(infos=tensor(dims=dims)), f"'{first}'", "!truncated")
    gguf("hole", raw(infos=lambda t: t[:2] + [(n, d, k, o + 32) for n, d, k, o in t[2:]]), f"'{TENSORS[2][0]}'",
         "offset", "!truncated")
    gguf("overlap", raw(infos=tensor(2, offset=0)), f"'{TENSORS[2][0]}'", "offset", "!truncated")
    gguf("order", raw(infos=lambda t: [t[1], t[0]] + t[2:]), f"'{TENSORS[1][0]}'", "offset", "!truncated")
    gguf("unaligned", raw(infos=tensor(1, offset=16)), f"'{TENSORS[1][0]}'", "offset", "!truncated")
    gguf("offset-wraps", raw(infos=tensor(-1 % len(TENSORS), offset=(1 << 64) - 16)), f"'{TENSORS[-1][0]}'")
    gguf("offset-wraps-32", raw(infos=tensor(0, offset=(1 << 64) - 32)), f"'{first}'")
    names = {4: "Q4_2", 5: "Q4_3", 16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS", 19: "IQ1_S", 21: "IQ3_S", 22: "IQ2_S",
             23: "IQ4_XS", 29: "IQ1_M", 34: "TQ1_0", 35: "TQ2_0", 31: "31", 32: "32", 33: "33", 36: "36", 37: "37",
             38: "38", 39: "MXFP4", 40: "NVFP4", 99: "99", 255: "255", 1 << 31: "2147483648", 24: "I8", 28: "F64"}
    for kind, text in names.items():
        gguf(f"type-{kind}", raw(infos=tensor(kind=kind)), f"'{first}'", text, "!truncated")
    gguf("rows-q4-0", raw(infos=tensor(dims=(100, 2), kind=Q4_0)), f"'{first}'", "100", "multiple of 32", "!truncated")
    gguf("rows-q4-k", raw(infos=tensor(dims=(100, 2), kind=12)), f"'{first}'", "100", "multiple of 256", "!truncated")
    whole = raw()
    gguf("data-1", whole[:-1], "truncated", f"'{TENSORS[-1][0]}'")
    gguf("data-half", whole[:len(whole) // 2], "truncated", "'")
    for align in (64, 16, 8):
        keys = KEYS + [("general.alignment", U32, align)]
        gguf(f"align-{align}", gguf_bytes(keys, TENSORS, align=align), status=0)
    for align in (0, 3, 33, 48):
        gguf(f"align-{align}", gguf_bytes(KEYS + [("general.alignment", U32, align)], TENSORS), "general.alignment",
             str(align), "!truncated")
    gguf("align-text", gguf_bytes(KEYS + [("general.alignment", STRING, "32")], TENSORS), "general.alignment")
    for n in (0, 1, 4):  # read; but no architecture has such a tensor
        gguf(f"dims-{n}", gguf_bytes(KEYS, TENSORS + [("note", (1,) * n, F32, encode([1.0], F32))]),
             "'note' is not supported in architecture llama", "!dimension")


def bad_tensors():
    for i, (name, dims, kind, data) in enumerate(TENSORS):
        rest = TENSORS[:i] + TENSORS[i + 1:]
        gguf(f"without-{name}", gguf_bytes(KEYS, rest), f"'{name}'", "missing", "!truncated")
        shape = (dims[0] * 2, *dims[1:])
        gguf(f"shape-{name}", gguf_bytes(KEYS, TENSORS[:i] + [(name, shape, kind, data * 2)] + TENSORS[i + 1:]),
             f"'{name}'", "expected", str(dims[0]), str(shape[0]))
    size = 64 * 32
    fused = [t for t in TENSORS if t[0] not in ("blk.0.attn_q.weight", "blk.0.attn_k.weight", "blk.0.attn_v.weight")]
    gguf("fused", gguf_bytes(KEYS, fused + [("blk.0.attn_qkv.weight", (32, 64), F32, bytes(4 * size))]), "attn_qkv")
    for name, factors, texts in (("length", [1.0] * 7, ("7", "8")), ("zero", [0.0] * 8, ()),
                                 ("negative", [-1.0] * 8, ()), ("nan", [float("nan")] * 8, ())):
        gguf(f"rope-freqs-{name}",
             gguf_bytes(KEYS, TENSORS + [("rope_freqs.weight", (len(factors),), F32, encode(factors, F32))]),
             "rope_freqs.weight", *texts)


def bad_keys():
    for arch in ("qwen3moe", "rwkv7", "phi3", "smollm3", "gemma2", "llama4", ""):
        with_keys(f"arch-{arch or 'none'}", (f"architecture {arch} is not supported" if arch else "architecture",
                                              "!truncated"), general__architecture=arch)
    with_keys("arch-missing", ("general.architecture",), general__architecture=None)
    with_keys("arch-number", ("general.architecture",), general__architecture=(U32, 7))
    needed = ("block_count", "embedding_length", "feed_forward_length", "context_length", "attention.head_count",
              "attention.layer_norm_rms_epsilon")
    for key in needed:
        with_keys(f"without-{key}", (f"llama.{key}", "!truncated"), **{f"llama.{key}": None})
    wrong = (("block_count", U32, 0), ("block_count", U32, 2), ("block_count", U32, 0xFFFFFFFF),
             ("block_count", I32, -1), ("block_count", STRING, "one"), ("block_count", FLOAT, 1.5),
             ("block_count", U64, 1 << 63), ("embedding_length", U32, 0), ("embedding_length", U32, 0xFFFFFFFF),
             ("embedding_length", U32, 64), ("feed_forward_length", U32, 0), ("feed_forward_length", U32, 33),
             ("context_length", U32, 0), ("attention.head_count", U32, 0), ("attention.head_count", U32, 3),
             ("attention.head_count", U32, 0x80000000), ("attention.head_count_kv", U32, 0),
             ("attention.head_count_kv", U32, 3), ("attention.key_length", U32, 0), ("attention.key_length", U32, 15),
             ("attention.key_length", U32, 0x80000000), ("attention.value_length", U32, 8),
             ("attention.layer_norm_rms_epsilon", FLOAT, -1.0),
             ("attention.layer_norm_rms_epsilon", FLOAT, float("nan")), ("rope.freq_base", FLOAT, 0.0),
             ("rope.freq_base", FLOAT, -1.0), ("rope.freq_base", FLOAT, float("inf")),
             ("rope.freq_base", FLOAT, float("nan")), ("rope.dimension_count", U32, 8),
             ("rope.scaling.type", STRING, "longrope"), ("rope.scaling.type", STRING, "spiral"),
             ("rope.scaling.type", STRING, "yarn"), ("rope.scaling.factor", FLOAT, 0.0), ("expert_count", U32, 8),
             ("final_logit_softcapping", FLOAT, 30.0), ("attn_logit_softcapping", FLOAT, 50.0))
    texts = {"rope.scaling.type longrope": "longrope", "rope.scaling.type spiral": "spiral",
             "rope.scaling.type yarn": "original_context_length", "expert_count 8": "experts",
             "final_logit_softcapping 30.0": "soft cap", "attn_logit_softcapping 50.0": "soft cap",
             "rope.dimension_count 8": "rotation", "block_count 2": "blk.1", "embedding_length 64": "64",
             "feed_forward_length 33": "33", "attention.head_count 3": "3", "attention.value_length 8": "8",
             "block_count 4294967295": "4294967295"}
    for key, kind, value in wrong:
        changes = {f"llama.{key}": (kind, value)}
        if key == "rope.scaling.factor":
            changes["llama.rope.scaling.type"] = (STRING, "linear")
        with_keys(f"{key}-{value}-{kind}", (texts.get(f"{key} {value}", f"llama.{key}"), "!truncated"), **changes)
    with_keys("kv-array", (), status=0, **{"llama.attention.head_count_kv": (U32, [1])})
    with_keys("kv-array-long", ("head_count_kv",), **{"llama.attention.head_count_kv": (U32, [1, 1])})


def bad_vocabularies():
    t = "tokenizer__ggml__"
    n = len(vocabulary.tokens)
    cases = {
        "no-model": (("tokenizer.ggml.model",), {t + "model": None}),
        "model": (("rwkv",), {t + "model": "rwkv"}),
        "no-pre": (("pre: missing", "--pre"), {t + "pre": None}),
        "pre": (("superbpe", "!truncated"), {t + "pre": "superbpe"}),
        "no-tokens": (("tokenizer.ggml.tokens",), {t + "tokens": None}),
        "tokens-numbers": (("tokenizer.ggml.tokens",), {t + "tokens": (U32, [1, 2, 3])}),
        "tokens-none": (("tokens",), {t + "tokens": (STRING, [])}),
        "more-tokens": (("token", str(N), str(N + 1)), {t + "tokens": vocabulary.tokens + ["x"] * (N + 1 - n),
                                                        t + "token_type": (I32, [1] * (N + 1))}),
        "no-merges": (("tokenizer.ggml.merges",), {t + "merges": None}),
        "merge-of-one": (("merge",), {t + "merges": ["a b", "ab"]}),
        "types-short": (("token_type",), {t + "token_type": [1] * (n - 1)}),
        "type-9": (("token_type", "got 9"), {t + "token_type": [9] * n}),
        "eos-beyond": (("eos_token_id", str(N + 5)), {t + "eos_token_id": (U32, N + 5)}),
        "bos-beyond": (("bos_token_id",), {t + "bos_token_id": (U32, 1 << 31)}),
        "merges-numbers": (("tokenizer.ggml.merges",), {t + "merges": (U32, [1, 2])}),
    }
    for name, (texts, changes) in cases.items():
        with_keys("words-" + name, texts, **changes)
    tokens = vocabulary.tokens + ["the", "the", ""]  # C050: of equal text, and one of none: allowed
    with_keys("words-equal", (), status=0, **{t + "tokens": tokens, t + "token_type": [1] * (n - 3) + [3] * 3 + [1] * 3})
    pieces = Pieces()
    rows = -(-len(pieces.tokens) // 32) * 32
    spm = Model("llama", True, rows, shape=SMALL, seed=8)
    keys = gguf_keys(spm, pieces, None, "pieces")
    index = {k[0]: i for i, k in enumerate(keys)}
    def change(name, texts, key, value, status=1):
        mine = list(keys)
        i = index["tokenizer.ggml." + key]
        mine[i:i + 1] = [] if value is None else [(mine[i][0], mine[i][1], value)]
        gguf("pieces-" + name, gguf_bytes(mine, gguf_tensors(spm, F32)), *texts, status=status)
    change("good", (), "bos_token_id", 2, status=0)
    change("no-scores", ("scores",), "scores", None)
    change("scores-short", ("scores",), "scores", pieces.scores[:-1])
    change("scores-nan", ("scores",), "scores", [float("nan")] * len(pieces.scores))
    change("no-bytes", ("byte", "0x"), "tokens", ["x" + t if t.startswith("<0x") else t for t in pieces.tokens])


def bad_splits():
    parts = split_parts(model, vocabulary, CHATML, F32, 2)
    three = split_parts(model, vocabulary, CHATML, F32, 3)
    def put(folder, *files):
        os.makedirs(os.path.join(out, folder))
        for name, data in files:
            write(os.path.join(out, folder, name), data)
    one, two = "m-00001-of-00002.gguf", "m-00002-of-00002.gguf"
    put("split-missing", (one, parts[0]))
    row(f"split-missing/{one}", (two,))
    put("split-first-missing", (two, parts[1]))
    row(f"split-first-missing/{two}", (one,))
    put("split-other", (one, parts[0]), (two, three[1]))
    row(f"split-other/{one}", (two, "3", "2"))
    row(f"split-other/{two}", ("3", "2"))
    put("split-swapped", (one, parts[1]), (two, parts[0]))
    row(f"split-swapped/{one}", ("part 2", "-00002-of-00002.gguf"))
    put("split-cat", ("m.gguf", parts[0] + parts[1]))
    row("split-cat/m.gguf", ("split", "!truncated"))
    put("split-cut", (one, parts[0]), (two, parts[1][:-40]))
    row(f"split-cut/{one}", (two, "truncated"))
    put("split-renamed", ("m.gguf", parts[0]))
    row("split-renamed/m.gguf", ("split",))
    put("split-name", ("m-00003-of-00002.gguf", parts[0]))
    row("split-name/m-00003-of-00002.gguf", ("m-00003-of-00002.gguf",))
    keys = [("split.no", U16, 1), ("split.count", U16, 2), ("split.tensors.count", I32, 99)]
    put("split-count", (one, parts[0]), (two, gguf_bytes(keys, TENSORS[len(TENSORS) // 2 + 1:])))
    row(f"split-count/{one}", ("99",))
    half = -(-len(TENSORS) // 2)
    keys = [("split.no", U16, 1), ("split.count", U16, 2), ("split.tensors.count", I32, len(TENSORS))]
    put("split-twice", (one, parts[0]), (two, gguf_bytes(keys, [TENSORS[0]] + TENSORS[half + 1:])))
    row(f"split-twice/{one}", (f"'{TENSORS[0][0]}'",))


# ---- folders


def folder(name, texts, status=1, change=None, files=None, gone=(), base="base", path=None):
    """A copy of the good folder with a changed configuration, other files, or files left out."""
    at = os.path.join(out, name)
    shutil.copytree(os.path.join(out, base), at)
    for file in gone:
        os.remove(os.path.join(at, file))
    if change:
        mine = config(model, vocabulary, base != "base", F32)
        change(mine)
        write(os.path.join(at, "config.json"), mine)
    for file, data in (files or {}).items():
        write(os.path.join(at, file), data)
    row(path or name, texts, status)


def setting(**values):
    def change(c):
        for key, value in values.items():
            if value is None:
                c.pop(key, None)
            else:
                c[key] = value
    return change


def bad_safetensors():
    tensors = [(n, s, v) for n, (s, v) in model.tensors.items()]
    places = [sum(len(v) for _, _, v in tensors[:i]) for i in range(len(tensors))]
    size = lambda n: struct.pack("<Q", n)
    def file(name, texts, data, status=1):
        folder("st-" + name, texts, status, files={"model.safetensors": data})
    def header(text, data=b""):
        text = text if isinstance(text, bytes) else text.encode()
        return size(len(text)) + text + data
    # C038, in its order
    file("01-empty", ("model.safetensors", "0 bytes"), b"")
    file("02-8-bytes", (), size(0x3C))
    file("03-ff", ("model.safetensors", "!truncated"), size(1) + b"\xff")
    file("03-utf8", ("0xff", "!truncated"), header(b'{"\xff": 1}'))
    file("04-brace", ("!truncated",), size(1) + b"{")
    file("05-length", (), size(0xFFFFFF000000003C) + b"{}")
    shared = ",".join(f'"t{i}":{{"dtype":"I32","shape":[2,2],"data_offsets":[0,16]}}' for i in range(10))
    file("06-shared", ("'t", "!truncated"), header("{" + shared + "}", bytes(16)))
    two = '{"test":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}}'
    file("07-short", ("'test'",), header(two, bytes(14)))
    file("07-long", ("34", "!truncated"), header(two, bytes(50)))
    file("08-product", ("18446744073709551614", "!truncated"),
         header('{"test":{"dtype":"F32","shape":[2,18446744073709551614],"data_offsets":[0,16]}}', bytes(16)))
    file("09-range", ("'test'", "!truncated"),
         header('{"test":{"dtype":"F32","shape":[2,2],"data_offsets":[0,4]}}', bytes(4)))
    file("10-twice", ("test", "!truncated"),
         header('{"test":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},'
                '"test":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}', bytes(8)))
    # the rest of 1.5
    file("text", ("!truncated",), header("no json"))
    file("array", ("!truncated",), header("[1]"))
    file("space", ("!truncated",), header(" " + two, bytes(16)))
    file("after", ("!truncated",), header(two + "{}", bytes(16)))
    file("deep", ("!truncated",), header('{"a":' * 20000 + "1" + "}" * 20000))
    file("no-dtype", ("'test'", "dtype"), header('{"test":{"shape":[1],"data_offsets":[0,4]}}', bytes(4)))
    file("no-shape", ("'test'", "shape"), header('{"test":{"dtype":"F32","data_offsets":[0,4]}}', bytes(4)))
    file("no-offsets", ("'test'", "data_offsets"), header('{"test":{"dtype":"F32","shape":[1]}}', bytes(4)))
    file("offsets-1", ("'test'", "data_offsets"),
         header('{"test":{"dtype":"F32","shape":[1],"data_offsets":[0]}}', bytes(4)))
    file("backwards", ("'test'", "!truncated"),
         header('{"test":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}}', bytes(4)))
    file("negative", ("'test'",), header('{"test":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}}', bytes(4)))
    file("real", ("'test'",), header('{"test":{"dtype":"F32","shape":[1.5],"data_offsets":[0,6]}}', bytes(6)))
    file("hole", ("'b'", "!truncated"),
         header('{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},'
                '"b":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}}', bytes(12)))
    unread = ("I8", "BOOL", "F8_E4M3", "C64", "Q7")
    for kind, width in (("F64", 8), ("I64", 8), ("I32", 4), ("I8", 1), ("U8", 1), ("BOOL", 1), ("F8_E4M3", 1), ("C64", 8),
                        ("Q7", 1)):  # adapters may have F64 and whole numbers, weights not
        text = ",".join(f'"{n}":{{"dtype":"{kind}","shape":{list(s)},"data_offsets":[{at * width},{(at + len(v)) * width}]}}'
                        for at, (n, s, v) in zip(places, tensors))
        file("dtype-" + kind, (kind if kind in unread else "expected f32, f16 or bf16", "'model.", "!truncated"),
             header("{" + text + "}", bytes(width * (places[-1] + len(tensors[-1][2])))))
    whole = safetensors_bytes(tensors, F32)
    file("cut", ("truncated",), whole[:-1])
    file("cut-half", ("truncated",), whole[:len(whole) // 2])
    n = struct.unpack("<Q", whole[:8])[0]
    file("padded", (), size(n + 3) + whole[8:8 + n] + b"   " + whole[8 + n:], status=0)  # starts at an odd place
    extra = whole[8:8 + n].rstrip()[:-1] + b',"one":{"dtype":"F32","shape":[],"data_offsets":[%d,%d]}}'
    end = len(whole) - 8 - n
    extra = extra % (end, end + 4)
    other = "is not supported in architecture llama"  # read; but no architecture has such a tensor
    file("scalar", ("'one' " + other,), size(len(extra)) + extra + whole[8 + n:] + bytes(4))
    extra = whole[8:8 + n].rstrip()[:-1] + b',"none":{"dtype":"F32","shape":[0,7],"data_offsets":[%d,%d]}}' % (end, end)
    file("zero-size", ("'none' " + other,), size(len(extra)) + extra + whole[8 + n:])
    for i, (name, shape, values) in enumerate(tensors):
        file("without-" + name, (f"'{name}'", "missing", "!truncated"), safetensors_bytes(tensors[:i] + tensors[i + 1:], F32))
    name, shape, values = tensors[2]
    file("shape", (f"'{name}'", "expected", "!truncated"),
         safetensors_bytes(tensors[:2] + [(name, (shape[1] * 2, shape[0] // 2), values)] + tensors[3:], F32))


def bad_shards():
    tensors = [(n, s, v) for n, (s, v) in model.tensors.items()]
    write_folder(os.path.join(out, "shards"), model, vocabulary, CHATML, F32, modern=True, shards=2)
    row("shards", (), 0)
    one, two = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
    half = -(-len(tensors) // 2)
    names = {n: one if i < half else two for i, (n, _, _) in enumerate(tensors)}
    index = lambda m: {"metadata": {"total_size": 1}, "weight_map": m}
    INDEX = "model.safetensors.index.json"
    folder("shard-gone", (two,), base="shards", gone=(two,))
    folder("shard-lacks", ("model.norm.weight", one), base="shards", files={INDEX: index(dict(names, **{"model.norm.weight": one}))})
    folder("shard-stray", (), 0, base="shards",  # C039: the index only
           files={"model.safetensors": safetensors_bytes(tensors[:2], F32)})
    for i, path in enumerate(("../x.safetensors", "/etc/passwd", "a/b.safetensors", "..", "", "./" + one)):
        folder(f"shard-path-{i}", (INDEX, "!truncated"), base="shards",
               files={INDEX: index(dict(names, **{"model.norm.weight": path}))})
    folder("shard-number", (INDEX,), base="shards", files={INDEX: index(dict(names, **{"model.norm.weight": 7}))})
    folder("shard-no-map", ("weight_map",), base="shards", files={INDEX: {"metadata": {}}})
    folder("shard-json", (INDEX,), base="shards", files={INDEX: b'{"weight_map": '})
    short = {n: f for n, f in names.items() if n != "model.norm.weight"}
    folder("shard-unlisted", ("model.norm.weight",), base="shards", files={INDEX: index(short)})
    odd = {n: "model.safetensors-0000%d-of-00002.safetensors" % (1 + (f == two)) for n, f in names.items()}
    at = os.path.join(out, "shard-odd-names")
    shutil.copytree(os.path.join(out, "shards"), at)
    for i in (1, 2):
        os.rename(os.path.join(at, f"model-0000{i}-of-00002.safetensors"),
                  os.path.join(at, f"model.safetensors-0000{i}-of-00002.safetensors"))
    write(os.path.join(at, INDEX), index(odd))
    row("shard-odd-names", (), 0)


def bad_configs():
    def conf(name, texts, change, status=1):
        folder("c-" + name, texts, status, change=change)
    for key in ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "vocab_size", "model_type"):
        conf(f"no-{key}", (f"'{key}'" if key != "model_type" else key, "!truncated"), setting(**{key: None}))
    wrong = {"hidden_size": (0, -32, "32", 32.5, 1 << 40, 33), "num_hidden_layers": (0, 2, 1 << 31),
             "num_attention_heads": (0, 3, 1 << 40), "num_key_value_heads": (0, 3), "vocab_size": (0, 7, 1 << 50),
             "rms_norm_eps": (-1, "x"), "head_dim": (0, 15, 1 << 33), "max_position_embeddings": (0, -1),
             "rope_theta": (0, -5, "x"), "intermediate_size": (0, 31)}
    for key, values in wrong.items():
        for i, value in enumerate(values):
            conf(f"{key}-{i}", ("!truncated", "model.layers.1" if (key, value) == ("num_hidden_layers", 2) else "'"),
                 setting(**{key: value}))
    bad = {
        "quant-gptq": (("gptq",), setting(quantization_config={"quant_method": "gptq", "bits": 4})),
        "quant-awq": (("awq",), setting(quantization_config={"quant_method": "awq"})),
        "quant-fp8": (("fp8",), setting(quantization_config={"quant_method": "fp8"})),
        "quant-bnb": (("bitsandbytes",), setting(quantization_config={"quant_method": "bitsandbytes"})),
        "quant-ct": (("compressed-tensors",), setting(quantization_config={"quant_method": "compressed-tensors"})),
        "experts-local": (("experts",), setting(num_local_experts=8)),
        "experts": (("experts",), setting(num_experts=8)),
        "mixtral": (("mixtral",), setting(model_type="mixtral", architectures=["MixtralForCausalLM"])),
        "qwen3-moe": (("qwen3_moe",), setting(model_type="qwen3_moe")),
        "phi3": (("phi3",), setting(model_type="phi3")),
        "smollm3": (("smollm3",), setting(model_type="smollm3")),
        "partial": (("0.5",), setting(partial_rotary_factor=0.5)),
        "longrope": (("longrope",), setting(rope_scaling={"rope_type": "longrope", "factor": 2.0})),
        "dynamic": (("dynamic",), setting(rope_scaling={"type": "dynamic", "factor": 2.0})),
        "mrope": (("mrope",), setting(rope_scaling={"type": "mrope", "mrope_section": [1, 2, 3]})),
        "spiral": (("spiral",), setting(rope_scaling={"rope_type": "spiral"})),
        "factor-none": (("factor",), setting(rope_scaling={"rope_type": "linear"})),
        "factor-0": (("factor",), setting(rope_scaling={"rope_type": "linear", "factor": 0})),
        "yarn-original": (("'",), setting(rope_scaling={"rope_type": "yarn", "factor": -4.0})),
        "llama3-low": (("low_freq_factor",), setting(rope_scaling={
            "rope_type": "llama3", "factor": 8.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64})),
        "act": (("hidden_act", "relu"), setting(hidden_act="relu")),
        "untied": (("tie_word_embeddings", "lm_head"), setting(tie_word_embeddings=False)),
        "tied-text": (("tie_word_embeddings",), setting(tie_word_embeddings="yes")),
    }
    for name, (texts, change) in bad.items():
        conf(name, (*texts, "!truncated"), change)
    for name in ("attention_bias", "mlp_bias"):  # 11.10: supported, or refused by name; here there are no biases
        conf(name, ("bias", "!truncated"), setting(**{name: True}))
    conf("default", (), setting(rope_scaling={"rope_type": "default"}), 0)
    conf("null", (), setting(quantization_config=None, rope_scaling=None), 0)
    conf("eos-list", (), setting(eos_token_id=[1, 2]), 0)
    conf("mistral", (), setting(model_type="mistral", architectures=["MistralForCausalLM"], sliding_window=None), 0)
    extra = [(n, s, v) for n, (s, v) in model.tensors.items()] + [("lm_head.weight", (N, 32), [0.5] * (N * 32))]
    folder("c-tied-with-head", ("tie_word_embeddings", "lm_head"),
           files={"model.safetensors": safetensors_bytes(extra, F32)})
    folder("c-json", ("config.json",), files={"config.json": b'{"model_type": "llama",'})
    folder("c-array", ("config.json",), files={"config.json": b"[1]"})
    folder("c-empty", ("config.json",), files={"config.json": b""})
    folder("c-utf8", ("config.json",), files={"config.json": b'{"model_type": "\xff"}'})
    folder("c-twice", ("config.json",), files={"config.json": b'{"model_type": "llama", "model_type": "qwen2"}'})
    folder("c-deep", ("config.json",), files={"config.json": b'{"a":' * 100000 + b"1" + b"}" * 100000})
    folder("c-none", ("config.json",), gone=("config.json",))
    folder("f-adapter", ("adapter",), gone=("config.json", "model.safetensors"),
           files={"adapter_config.json": {"peft_type": "LORA"}, "adapter_model.safetensors": b"x"})
    folder("f-adapter-config", ("adapter",), gone=("model.safetensors",),
           files={"adapter_config.json": {"peft_type": "LORA"}, "adapter_model.safetensors": b"x"})
    folder("f-pytorch", ("pytorch_model.bin", "safetensors"), gone=("model.safetensors",), files={"pytorch_model.bin": b"x"})
    folder("f-consolidated", ("consolidated",), gone=("model.safetensors",), files={"consolidated.safetensors": b"x"})
    folder("f-pth", ("consolidated",), gone=("model.safetensors", "config.json"), files={"consolidated.00.pth": b"x"})
    folder("f-none", ("model.safetensors",), gone=("model.safetensors",))
    os.makedirs(os.path.join(out, "f-empty"))
    row("f-empty", ("f-empty",))
    os.makedirs(os.path.join(out, "models--org--name", "snapshots", "abc"))
    row("models--org--name", ("snapshots",))


def bad_tokenizers():
    whole = vocabulary.json()
    def tok(name, texts, change, status=1):
        mine = copy.deepcopy(whole)
        mine = change(mine) or mine
        folder("t-" + name, texts, status, files={"tokenizer.json": mine})
    def at(*path, to):
        def change(t):
            for p in path[:-1]:
                t = t[p]
            t[path[-1]] = to
        return change
    n = len(vocabulary.tokens)
    tok("unigram", ("Unigram",), at("model", "type", to="Unigram"))
    tok("wordpiece", ("WordPiece",), at("model", "type", to="WordPiece"))
    tok("pre", ("Whitespace",), at("pre_tokenizer", to={"type": "Whitespace"}))
    tok("normalizer", ("Lowercase",), at("normalizer", to={"type": "Lowercase"}))
    tok("nfkc", ("NFKC",), at("normalizer", to={"type": "NFKC"}))
    tok("merge-unknown", ("merge",), lambda t: t["model"]["merges"].append(["zz", "qq"]))
    tok("merge-three", ("merge",), lambda t: t["model"]["merges"].append(["a", "b", "c"]))
    tok("merge-number", ("merge",), lambda t: t["model"]["merges"].append(7))
    tok("merge-text", ("merge",), at("model", "merges", to="a b"))
    tok("no-merges", ("merges",), lambda t: t["model"].pop("merges") and None)
    tok("no-vocab", ("vocab",), lambda t: t["model"].pop("vocab") and None)
    tok("vocab-list", ("vocab",), at("model", "vocab", to=["a", "b"]))
    tok("no-model", ("model",), lambda t: t.pop("model") and None)
    tok("id-negative", ("the",), at("model", "vocab", "the", to=-1))
    tok("id-twice", ("5",), at("model", "vocab", "the", to=5))
    tok("id-huge", ("the",), at("model", "vocab", "the", to=1 << 40))
    tok("id-beyond", ("the",), at("model", "vocab", "the", to=N + 4))
    tok("id-text", ("the",), at("model", "vocab", "the", to="7"))
    tok("added-beyond", ("<|x|>",), lambda t: t["added_tokens"].append({"id": 1 << 33, "content": "<|x|>", "special": True}))
    tok("added-no-id", ("added_tokens",), lambda t: t["added_tokens"].append({"content": "<|x|>"}))
    tok("added-map", ("added_tokens",), at("added_tokens", to={"a": 1}))
    tok("hole", ("hole",), lambda t: t["model"]["vocab"].pop("a") and None)
    tok("regex-split", ("pre_tokenizer",),
        at("pre_tokenizer", "pretokenizers", 0, to={"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated",
                                                    "invert": False}))
    tok("nul", ("tokenizer.json",), lambda t: t["model"]["vocab"].update({"\0": N - 1}))
    tok("not-json", ("tokenizer.json",), lambda t: b"{")
    tok("list", ("tokenizer.json",), lambda t: b"[]")
    tok("twice", ("tokenizer.json",), lambda t: b'{"model": {}, "model": {}}')
    folder("t-none", ("tokenizer.json",), gone=("tokenizer.json",))
    folder("t-sentencepiece", ("tokenizer.json",), gone=("tokenizer.json",), files={"tokenizer.model": b"x"})
    folder("t-settings", ("tokenizer_config.json",), files={"tokenizer_config.json": b"{"})
    folder("t-generation", ("generation_config.json",), files={"generation_config.json": b"nonsense"})
    for name, text in (("unknown", "{{ messages[0]['content'] | upper }}"), ("code", "{% for m in messages %}<m>{{ m }}</m>{% endfor %}")):
        folder("t-template-" + name, ("template", "--chat"), gone=("tokenizer_config.json",), files={"chat_template.jinja": text.encode()})


if __name__ == "__main__":
    write_folder(os.path.join(out, "base"), model, vocabulary, CHATML, F32)
    row("base", (), 0)
    gguf("whole", raw(), status=0)
    for group in (bad_headers, bad_infos, bad_tensors, bad_keys, bad_vocabularies, bad_splits, bad_safetensors,
                  bad_shards, bad_configs, bad_tokenizers):
        group()
    # For cutting: a header as short as can be.
    short = [k for k in KEYS if not k[0].startswith(("tokenizer", "general.name"))]
    data = gguf_bytes(short, TENSORS)
    write(os.path.join(out, "short.gguf"), data)
    row("short.gguf", ("tokenizer.ggml.model", "!truncated"))
