#!/usr/bin/env python3
"""Tiny random models as transformers writes them: make_hf.py ARCH FOLDER [VARIANT].

ARCH is llama, qwen2, qwen3 or gemma3. config.json and model.safetensors are of save_pretrained(), the tokenizer
is trained here on the text below, with the splitting rule that the architecture's own files have. Weights are
drawn with seed 6 and larger than at the start of a training, so that attention is not even. VARIANT: yarn, llama3
or linear (scalings of the rotation), or bf16 (the type of the weights), or parts (several safetensors files), or
bf16,parts.
"""
import sys

import torch
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast

TEXT = """The keeper of the lighthouse wrote down, every evening, how many ships had passed. On the first of March
there were four, and a fog so thick that he counted them by their horns. On the 2nd there were 11; one of them, a
schooner with a patched foresail, lay at anchor until midnight. Größe, naïve, 東京: it's what they'd say, isn't it?
"""
LLAMA = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
         r"|\s+(?!\S)|\s+")
QWEN = LLAMA.replace(r"\p{N}{1,3}", r"\p{N}")
CHATML = ("{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>'"
          " + '\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")
SIZES = dict(vocab_size=512, hidden_size=64, intermediate_size=96, num_hidden_layers=3, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=2048, rms_norm_eps=1e-5)
SCALING = {"yarn": {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0,
                    "original_max_position_embeddings": 512},
           "llama3": {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0,
                      "high_freq_factor": 4.0, "original_max_position_embeddings": 128},
           "linear": {"rope_type": "linear", "rope_theta": 10000.0, "factor": 2.0}}
OWN = {"llama": dict(tie_word_embeddings=False), "qwen2": dict(tie_word_embeddings=True),
       "qwen3": dict(tie_word_embeddings=True, head_dim=32),
       "gemma3": dict(num_hidden_layers=7, num_key_value_heads=1, head_dim=32, sliding_window=8,
                      query_pre_attn_scalar=24, rms_norm_eps=1e-6)}


def byte_level(arch):
    t = Tokenizer(models.BPE())
    if arch != "llama":
        t.normalizer = normalizers.NFC()
    t.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(LLAMA if arch == "llama" else QWEN), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator([TEXT], trainers.BpeTrainer(vocab_size=380, show_progress=False,
                                                      initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    t.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    return PreTrainedTokenizerFast(tokenizer_object=t, eos_token="<|im_end|>", pad_token="<|endoftext|>")


def sentence_piece():
    first = ["<pad>", "<eos>", "<bos>", "<unk>"]
    t = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    t.normalizer = normalizers.Replace(" ", "\u2581")
    t.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    t.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()])
    t.train_from_iterator([TEXT], trainers.BpeTrainer(vocab_size=440, show_progress=False, special_tokens=first + [
        f"<0x{b:02X}>" for b in range(256)]))
    import json
    rules = json.loads(t.to_str())  # byte tokens are no special ones in the model's own file
    rules["added_tokens"] = [a for a in rules["added_tokens"] if a["id"] < 4]
    t = Tokenizer.from_str(json.dumps(rules))
    t.add_special_tokens([AddedToken("<|im_start|>"), AddedToken("<|im_end|>")])
    return PreTrainedTokenizerFast(tokenizer_object=t, bos_token="<bos>", eos_token="<|im_end|>", pad_token="<pad>",
                                   unk_token="<unk>")


def main(arch, folder, variant=""):
    more = {"rope_parameters": SCALING[variant]} if variant in SCALING else {}
    tokenizer = sentence_piece() if arch == "gemma3" else byte_level(arch)
    tokenizer.chat_template = CHATML
    config = AutoConfig.for_model("gemma3_text" if arch == "gemma3" else arch, **{**SIZES, **OWN[arch], **more},
                                  eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id,
                                  bos_token_id=tokenizer.bos_token_id)
    torch.manual_seed(6)
    model = AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.normal_(0, 0.15 if p.dim() > 1 else 0.1)
            if p.dim() == 1 and "norm" in name and arch != "gemma3":
                p.add_(1)  # gains around 1; gemma stores them minus 1
    model = model.to(torch.bfloat16 if "bf16" in variant else torch.float32)
    model.save_pretrained(folder, **({"max_shard_size": "100KB"} if "parts" in variant else {}))
    tokenizer.save_pretrained(folder)


main(*sys.argv[1:])
