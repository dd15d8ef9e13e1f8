/* gguf_llama.c - whole tiny llama models for tests: keys, a byte-level vocabulary, weights from
 * a seeded stream. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "base/rng.h"
#include "base/text.h"
#include "tests/gguf_make.h"

enum {
    U32 = 4,
    BOOL = 7,
    F32 = 0,
    F16 = 1,
    Q4_0 = 2,
    Q8_0 = 8,
    NORMAL = 1,
    CONTROL = 3,
    BYTES = 256
};

/* ChatML as SmolLM2's own files have it (Hugging Face, HuggingFaceTB/SmolLM2-135M-Instruct). */
static const char template[] =
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
    "{{ '<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging "
    "Face"
    "<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] "
    "+ "
    "'<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}"
    "{{ '<|im_start|>assistant\n' }}{% endif %}";

/* Left and right part of each merge, and so a token each: English, as far as 60 tokens reach.
 */
static const char *const merges[] = {
    "Ġ t", "Ġ a",  "i n", "h e", "r e", "o n", "e r", "Ġt he", "a t",  "Ġ s",
    "Ġ o", "e n",  "Ġ c", "e s", "Ġ w", "n d", "i t", "o r",   "i s",  "a l",
    "Ġ p", "in g", "Ġ f", "a n", "e d", "Ġ b", "o u", "a r",   "Ġ in", "Ġo f",
};

enum { N_MERGE = sizeof merges / sizeof merges[0] };

gguf_make_options gguf_make_defaults(void)
{
    return (gguf_make_options){.n_layer = 2,
                               .n_head = 4,
                               .n_kv_head = 2,
                               .head_dim = 12,
                               .n_hidden = 48,
                               .n_ff = 96,
                               .n_context = 4096,
                               .n_vocab = 320,
                               .tied = true,
                               .spread = 0.08f,
                               .seed = 1,
                               .rope_theta = 10000};
}

/* GPT-2's character for a byte: itself where it is printable in Latin-1, else the next free one
 * from U+0100 on. */
static uint32_t byte_character(int byte)
{
    int n = 0;
    for (int b = 0; b < BYTES; b++) {
        bool itself = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
        if (b == byte)
            return itself ? (uint32_t)b : (uint32_t)(256 + n);
        n += !itself;
    }
    return 0;
}

static void vocabulary(gguf_make *m, const gguf_make_options *o)
{
    int n = o->n_vocab, n_merge = 0;
    char(*text)[32] = calloc((size_t)n, sizeof *text);
    const char **token = calloc((size_t)n, sizeof *token);
    int32_t *type = calloc((size_t)n, sizeof *type);
    if (!text || !token || !type)
        abort();
    for (int i = 0; i < n; i++) {
        int byte = i - GGUF_MAKE_BYTES, merge = byte - BYTES;
        type[i] = CONTROL;
        if (i < GGUF_MAKE_BYTES) {
            static const char *const special[] = {"<|endoftext|>", "<|im_start|>",
                                                  "<|im_end|>"};
            snprintf(text[i], sizeof text[i], "%s", special[i]);
        } else if (byte < BYTES && byte == o->no_byte && byte) {
            snprintf(text[i], sizeof text[i], "<|no_%d|>", byte);
        } else if (byte < BYTES) {
            text_encode(text[i], byte_character(byte));
            type[i] = NORMAL;
        } else if (merge < N_MERGE) {
            const char *space = strchr(merges[merge], ' ');
            snprintf(text[i], sizeof text[i], "%.*s%s", (int)(space - merges[merge]),
                     merges[merge], space + 1);
            type[i] = NORMAL;
            n_merge = merge + 1;
        } else {
            snprintf(text[i], sizeof text[i], "<|reserved_%d|>", merge - N_MERGE);
        }
        token[i] = text[i];
    }
    gguf_make_text(m, "tokenizer.ggml.model", "gpt2");
    gguf_make_text(m, "tokenizer.ggml.pre", "smollm");
    gguf_make_texts(m, "tokenizer.ggml.tokens", token, n);
    gguf_make_i32s(m, "tokenizer.ggml.token_type", type, n);
    gguf_make_texts(m, "tokenizer.ggml.merges", merges, n_merge);
    gguf_make_int(m, "tokenizer.ggml.bos_token_id", U32, GGUF_MAKE_START);
    gguf_make_int(m, "tokenizer.ggml.eos_token_id", U32, GGUF_MAKE_END);
    gguf_make_int(m, "tokenizer.ggml.unknown_token_id", U32, GGUF_MAKE_EOT);
    gguf_make_int(m, "tokenizer.ggml.add_space_prefix", BOOL, 0);
    gguf_make_int(m, "tokenizer.ggml.add_bos_token", BOOL, 0);
    if (!o->no_template)
        gguf_make_text(m, "tokenizer.chat_template", template);
    free(text);
    free(token);
    free(type);
}

/* A value of roughly normal distribution: twelve uniform ones. */
static double normal(uint64_t rng[RNG_WORDS])
{
    double sum = -6;
    for (int i = 0; i < 12; i++)
        sum += rng_real(rng);
    return sum;
}

/* Blocks of 32 weights: d, then nibbles (q - 8) or signed bytes. */
static void put_block(buf *b, const float *x, int type)
{
    float most = 1e-6f;
    for (int i = 0; i < 32; i++)
        most = fmaxf(most, fabsf(x[i]));
    uint16_t d = half_from_float(most / (type == Q4_0 ? 7 : 127));
    float step = half_to_float(d);
    buf_add(b, &d, sizeof d);
    for (int i = 0; i < (type == Q4_0 ? 16 : 32); i++) {
        long q = lrintf(x[i] / step);
        if (type == Q4_0)
            q = ((q + 8) & 15) | ((lrintf(x[i + 16] / step) + 8) & 15) << 4;
        buf_char(b, (char)(q & 255));
    }
}

/* rows 0: a norm of n_col weights near 1. */
static void tensor(gguf_make *m, const gguf_make_options *o, const char *name, int rows,
                   int n_col)
{
    uint64_t rng[RNG_WORDS], dim[2] = {(uint64_t)n_col, (uint64_t)rows};
    int64_t n = (int64_t)n_col * (rows ? rows : 1);
    int type = rows ? o->type : F32;
    char key[128];
    if (o->drop && strcmp(o->drop, name) == 0)
        return;
    snprintf(key, sizeof key, "%llu|%s", (unsigned long long)o->seed, name);
    rng_init(rng, key, strlen(key));
    float *x = calloc((size_t)n, sizeof *x);
    buf b;
    if (!x)
        abort();
    buf_init(&b, 256 << 20);
    for (int64_t i = 0; i < n; i++) {
        double spread = rows ? (o->spread > 0 ? (double)o->spread : 0.08) : 0.1;
        x[i] = (float)((rows ? 0 : 1) + spread * normal(rng));
    }
    for (int64_t i = 0; type == F16 && i < n; i++) {
        uint16_t h = half_from_float(x[i]);
        buf_add(&b, &h, sizeof h);
    }
    for (int64_t i = 0; (type == Q4_0 || type == Q8_0) && i < n; i += 32)
        put_block(&b, x + i, type);
    if (type == F32)
        buf_add(&b, x, (size_t)n * sizeof *x);
    gguf_make_tensor(m, name, (uint32_t)type, rows ? 2 : 1, dim, b.data, b.n);
    buf_fini(&b);
    free(x);
}

static void keys(gguf_make *m, const gguf_make_options *o)
{
    const char *arch = o->arch ? o->arch : "llama";
    const struct {
        const char *name;
        int value;
    } sizes[] = {
        {"block_count", o->n_layer},           {"context_length", o->n_context},
        {"embedding_length", o->n_hidden},     {"feed_forward_length", o->n_ff},
        {"attention.head_count", o->n_head},   {"attention.head_count_kv", o->n_kv_head},
        {"attention.key_length", o->head_dim}, {"attention.value_length", o->head_dim},
        {"rope.dimension_count", o->head_dim}, {"vocab_size", o->n_vocab + o->pad_rows}};
    char key[128];
    gguf_make_text(m, "general.architecture", arch);
    gguf_make_text(m, "general.name", "tiny");
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        snprintf(key, sizeof key, "%s.%s", arch, sizes[i].name);
        gguf_make_int(m, key, U32, (uint64_t)sizes[i].value);
    }
    snprintf(key, sizeof key, "%s.attention.layer_norm_rms_epsilon", arch);
    gguf_make_f32(m, key, 1e-5f);
    snprintf(key, sizeof key, "%s.rope.freq_base", arch);
    gguf_make_f32(m, key, o->rope_theta > 0 ? (float)o->rope_theta : 10000);
    if (!o->rope_scaling)
        return;
    snprintf(key, sizeof key, "%s.rope.scaling.type", arch);
    gguf_make_text(m, key, o->rope_scaling);
    snprintf(key, sizeof key, "%s.rope.scaling.factor", arch);
    gguf_make_f32(m, key, (float)o->rope_factor);
    snprintf(key, sizeof key, "%s.rope.scaling.original_context_length", arch);
    gguf_make_int(m, key, U32, (uint64_t)o->rope_original);
}

void gguf_make_llama_into(gguf_make *m, const gguf_make_options *o)
{
    int e = o->n_hidden, q = o->n_head * o->head_dim, k = o->n_kv_head * o->head_dim;
    int rows = o->n_vocab + o->pad_rows;
    keys(m, o);
    if (!o->no_vocab)
        vocabulary(m, o);
    tensor(m, o, "token_embd.weight", rows, e);
    for (int l = 0; l < o->n_layer; l++) {
        const struct {
            const char *name;
            int rows, n_col;
        } each[] = {{"attn_norm", 0, e},    {"ffn_down", e, o->n_ff}, {"ffn_gate", o->n_ff, e},
                    {"ffn_up", o->n_ff, e}, {"ffn_norm", 0, e},       {"attn_k", k, e},
                    {"attn_output", e, q},  {"attn_q", q, e},         {"attn_v", k, e}};
        for (size_t i = 0; i < sizeof each / sizeof each[0]; i++) {
            char name[64];
            snprintf(name, sizeof name, "blk.%d.%s.weight", l, each[i].name);
            tensor(m, o, name, each[i].rows, each[i].n_col);
        }
    }
    tensor(m, o, "output_norm.weight", 0, e);
    if (!o->tied)
        tensor(m, o, "output.weight", rows, e);
    if (o->rope_divisor) {
        uint64_t dim = (uint64_t)o->head_dim / 2;
        gguf_make_tensor(m, "rope_freqs.weight", F32, 1, &dim, o->rope_divisor,
                         (size_t)dim * sizeof *o->rope_divisor);
    }
}

bool gguf_make_llama(const char *path, const gguf_make_options *o)
{
    gguf_make m;
    gguf_make_init(&m);
    gguf_make_llama_into(&m, o);
    bool done = gguf_make_write(&m, path);
    gguf_make_fini(&m);
    return done;
}
