#!/usr/bin/env python3
"""Makes tests/golden/ids/NAME.txt: ids of the golden strings for a SentencePiece vocabulary, from outside.

    build/dev/tests/golden/golden_strings | python tests/golden/pieces.py NAME VOCAB.gguf > tests/golden/ids/NAME.txt

The pieces, scores and types of the GGUF file are written into a model of the Python package sentencepiece
(0.2.3 was used; with protobuf), whose own program then makes the ids. With llama-cpp-python installed its
ids are compared, too. A control token in the text is text for both.
"""
import sys

import gguf
import sentencepiece
from sentencepiece import sentencepiece_model_pb2 as proto

from golden_strings import add, read_strings

SPACE = "\u2581"


def model_of(reader):
    field = lambda key: reader.fields["tokenizer.ggml." + key].contents()
    has = lambda key: "tokenizer.ggml." + key in reader.fields
    m = proto.ModelProto()
    for text, score, kind in zip(field("tokens"), field("scores"), field("token_type")):
        # GGUF's types are those of sentencepiece; user's pieces have their spaces as such in the file.
        text = text.replace(" ", SPACE) if kind == 4 else text
        m.pieces.add(piece=text, score=score, type=kind)
    spec = m.trainer_spec
    spec.model_type, spec.byte_fallback, spec.vocab_size = proto.TrainerSpec.BPE, True, len(m.pieces)
    spec.unk_id = field("unknown_token_id") if has("unknown_token_id") else 0
    spec.bos_id, spec.eos_id, spec.pad_id = -1, -1, -1
    m.pieces[spec.unk_id].type = 2  # the library wants exactly one; Gemma's file says control token
    spec.unk_piece = m.pieces[spec.unk_id].piece
    norm = m.normalizer_spec
    norm.name, norm.remove_extra_whitespaces, norm.escape_whitespaces = "identity", False, True
    norm.add_dummy_prefix = bool(field("add_space_prefix")) if has("add_space_prefix") else True
    return m


def compare_llama(path, strings, ids):
    try:
        import llama_cpp
    except ImportError:
        return "not compared with llama-cpp-python (not installed)"
    model = llama_cpp.Llama(model_path=path, vocab_only=True, verbose=False)
    differ = [i for i, text in enumerate(strings) if model.tokenize(text.encode(), add_bos=False, special=False) != ids[i]]
    for i in differ[:20]:
        print("llama.cpp differs:", i, ascii(strings[i])[:300], file=sys.stderr)
    return "llama-cpp-python %s: %d of %d strings differ" % (llama_cpp.__version__, len(differ), len(strings))


def main():
    name, path = sys.argv[1], sys.argv[2]
    reader = gguf.GGUFReader(path)
    processor = sentencepiece.SentencePieceProcessor(model_proto=model_of(reader).SerializeToString())
    strings = read_strings(sys.stdin.buffer)
    ids = [processor.encode(text) for text in strings]
    print("# Made by tests/golden/pieces.py from the pieces and scores of %s by sentencepiece %s" % (name, sentencepiece.__version__))
    print("# " + compare_llama(path, strings, ids))
    print("# FIRST COUNT FNV of the ids of golden strings (strings.h)")
    for first in range(0, len(strings), 100):
        fnv = 0xCBF29CE484222325
        for one in ids[first:first + 100]:
            for value in [*one, -1]:
                fnv = add(fnv, value)
        print("ids %d %d %016x" % (first, len(strings[first:first + 100]), fnv))


main()
