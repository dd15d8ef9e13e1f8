#!/usr/bin/env python3
"""Makes tests/golden/tokenizers/: small tokenizer.json files and the ids that their own library gives.

    build/dev/tests/golden/golden_strings | python tests/golden/tokenizer_files.py tests/golden/tokenizers [NAME=VOCAB.gguf ...]

Needs the Python package tokenizers (0.22.2 was used). Each pipeline has the shape of a known model's
file (engine.md 3.1, 3.2); vocabulary and merges are trained here on the first 2,000 golden strings, so
that nothing is of anybody's model. NAME.ids holds digests of the ids of all golden strings, 100 at a
time. Two of the files write merges as [left, right], the others as "left right".

With NAME=VOCAB.gguf (gpt-2, smollm, llama-bpe, qwen2) the same pipeline is put over a real vocabulary:
name a folder outside the repository, for vocabularies have their own licences, and run
KVT_TOKENIZERS=FOLDER build/dev/tests/golden/test_tokenizer_files.
"""
import json
import os
import sys

import tokenizers
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from golden_strings import add, read_strings

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace("{1,3}", "")
SPACE = "\u2581"
BYTES = ["<0x%02X>" % b for b in range(256)]


def byte_level(words, nfc=False, **model):
    t = Tokenizer(models.BPE(**model))
    t.normalizer = normalizers.NFC() if nfc else None
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=words is None or words == "digits")
    if words == "digits":
        level = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), level])
    elif words:
        level = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(words), "isolated", False), level])
    t.pre_tokenizer, t.decoder = level, decoders.ByteLevel()
    t.post_processor = processors.ByteLevel(trim_offsets=False)
    return t


def pieces(kind):
    t = Tokenizer(models.BPE(byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    replace = normalizers.Replace(" ", SPACE)
    t.normalizer = normalizers.Sequence([normalizers.Prepend(SPACE), replace]) if kind == "llama2" else replace
    if kind == "metaspace":
        t.normalizer = None
        t.pre_tokenizer = pre_tokenizers.Metaspace(replacement=SPACE, prepend_scheme="first", split=False)
    if kind == "gemma3":
        t.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous", False)
    t.decoder = decoders.Sequence([decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()])
    return t


FORMS = {  # name: pipeline, special tokens, tokens of users, BOS
    "gpt-2": (lambda: byte_level(None), ["<|endoftext|>"], [], None),
    "smollm": (lambda: byte_level("digits"), ["<|endoftext|>", "<|im_start|>", "<|im_end|>"], [], None),
    "llama-bpe": (lambda: byte_level(LLAMA3, ignore_merges=True), ["<|begin_of_text|>", "<|eot_id|>"], [], "<|begin_of_text|>"),
    "qwen2": (lambda: byte_level(QWEN2, nfc=True), ["<|endoftext|>", "<|im_end|>"], ["<tool_call>"], None),
    "gemma3": (lambda: pieces("gemma3"), ["<pad>", "<eos>", "<bos>", "<unk>", "<start_of_turn>"], ["\n\n", "\n\n\n", "<b>", "</b>"], "<bos>"),
    "llama2": (lambda: pieces("llama2"), ["<unk>", "<s>", "</s>"], [], "<s>"),
    "metaspace": (lambda: pieces("metaspace"), ["<unk>", "<s>", "</s>"], [], "<s>"),
}
PAIRS = {"qwen2", "gemma3"}


def train(name, strings):
    make, special, user, bos = FORMS[name]
    t = make()
    alphabet = pre_tokenizers.ByteLevel.alphabet() if name in ("gpt-2", "smollm", "llama-bpe", "qwen2") else []
    plain = name in ("gemma3", "llama2", "metaspace")
    first = special + (BYTES + user if plain else [])
    # A pipeline of one word learns from words: spaces are cut for the trainer only.
    keep, decoder = t.pre_tokenizer, t.decoder
    if plain:
        t.pre_tokenizer = pre_tokenizers.Split(Regex(SPACE + "?[^" + SPACE + r"\n]+|[" + SPACE + r"\n]+"), "isolated", False)
        normalizer, t.normalizer = t.normalizer, normalizers.Replace(" ", SPACE)
    t.train_from_iterator(strings[:2000], trainers.BpeTrainer(
        vocab_size=700 + len(first), special_tokens=first, initial_alphabet=sorted(alphabet), limit_alphabet=320, show_progress=False))
    if plain:
        t.pre_tokenizer, t.normalizer = keep, normalizer
    state = json.loads(t.to_str())
    return finish(name, state, special, user, bos)


def finish(name, state, special, user, bos):
    """The state with its added tokens, BOS and merges as the models' own files have them."""
    vocab = state["model"]["vocab"]
    for text in [*special, *user]:
        vocab.setdefault(text, len(vocab))
    state["added_tokens"] = [
        {"id": vocab[text], "content": text, "single_word": False, "lstrip": False, "rstrip": False,
         "normalized": False, "special": text in special} for text in sorted([*special, *user], key=vocab.get)]
    if bos:
        single = [{"SpecialToken": {"id": bos, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
        state["post_processor"] = {"type": "TemplateProcessing", "single": single,
                                   "pair": [*single, {"Sequence": {"id": "B", "type_id": 1}}],
                                   "special_tokens": {bos: {"id": bos, "ids": [vocab[bos]], "tokens": [bos]}}}
    merges = [m if isinstance(m, list) else m.split(" ") for m in state["model"]["merges"]]
    state["model"]["merges"] = merges if name in PAIRS else [" ".join(m) for m in merges]
    return state


def from_gguf(name, path):
    import gguf
    reader = gguf.GGUFReader(path)
    field = lambda key: reader.fields["tokenizer.ggml." + key].contents()
    tokens, types = field("tokens"), field("token_type")
    make, _, _, bos = FORMS[name]
    state = json.loads(make().to_str())
    state["model"]["vocab"] = {t: i for i, t in enumerate(tokens) if types[i] == 1}
    state["model"]["merges"] = field("merges")
    special = [t for i, t in enumerate(tokens) if types[i] != 1]
    state["added_tokens"] = []
    full = finish(name, state, [], [], None)
    full["added_tokens"] = [{"id": i, "content": t, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
                             "special": types[i] == 3} for i, t in enumerate(tokens) if t in set(special)]
    return full


def write(folder, name, state, strings):
    os.makedirs(os.path.join(folder, name), exist_ok=True)
    with open(os.path.join(folder, name, "tokenizer.json"), "w", encoding="utf-8") as f:
        json.dump(state, f, ensure_ascii=False, separators=(",", ":"))
    # Special tokens of the library are looked for in any text: what a person writes is none here.
    plain = dict(state, added_tokens=[a for a in state["added_tokens"] if not a["special"]], post_processor=None)
    t = Tokenizer.from_str(json.dumps(plain))
    ids = [e.ids for e in t.encode_batch(strings, add_special_tokens=False)]
    with open(os.path.join(folder, name, "ids.txt"), "w") as f:
        f.write("# Made by tests/golden/tokenizer_files.py with tokenizers %s: FIRST COUNT FNV of the ids (strings.h)\n" % tokenizers.__version__)
        for first in range(0, len(strings), 100):
            fnv = 0xCBF29CE484222325
            for one in ids[first:first + 100]:
                for value in [*one, -1]:
                    fnv = add(fnv, value)
            f.write("ids %d %d %016x\n" % (first, len(strings[first:first + 100]), fnv))


def main():
    folder, real = sys.argv[1], dict(a.split("=", 1) for a in sys.argv[2:])
    strings = read_strings(sys.stdin.buffer)
    for name in real or FORMS:
        write(folder, name, from_gguf(name, real[name]) if real else train(name, strings), strings)


main()
