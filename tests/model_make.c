/* model_make.c - whole tiny models for tests as GGUF files: keys, a byte-level vocabulary,
 * weights from a seeded stream. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "base/rng.h"
#include "base/text.h"
#include "tests/model_make.h"

enum {
    U32 = 4,
    BOOL = 7,
    F32 = 0,
    F16 = 1,
    Q4_0 = 2,
    Q8_0 = 8,
    BF16 = 30,
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

model_make_options model_make_defaults(void)
{
    return (model_make_options){.n_layer = 2,
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

model_make_options model_make_of(const char *arch)
{
    model_make_options o = model_make_defaults();
    o.arch = arch;
    if (strcmp(arch, "qwen2") == 0)
        o.rope_theta = 1e6;
    if (strcmp(arch, "qwen3") == 0) {
        o.rope_theta = 1e6;
        o.head_dim = 16; /* 4 x 16 channels beside a width of 48 */
    }
    if (strcmp(arch, "gemma3") == 0) {
        o.n_layer = 7; /* layer 5 is global, 6 is not */
        o.n_kv_head = 1;
        o.head_dim = 16;
        o.window = 5;
        o.rope_theta = 1e6;
        o.rope_scaling = "linear"; /* of the global layers */
        o.rope_factor = 8;
    }
    return o;
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

static void vocabulary(gguf_make *m, const model_make_options *o)
{
    int n = o->n_vocab, n_merge = 0;
    char(*text)[32] = calloc((size_t)n, sizeof *text);
    const char **token = calloc((size_t)n, sizeof *token);
    int32_t *type = calloc((size_t)n, sizeof *type);
    if (!text || !token || !type)
        abort();
    for (int i = 0; i < n; i++) {
        int byte = i - MODEL_MAKE_BYTES, merge = byte - BYTES;
        type[i] = CONTROL;
        if (i < MODEL_MAKE_BYTES) {
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
    gguf_make_int(m, "tokenizer.ggml.bos_token_id", U32, MODEL_MAKE_START);
    gguf_make_int(m, "tokenizer.ggml.eos_token_id", U32, MODEL_MAKE_END);
    gguf_make_int(m, "tokenizer.ggml.unknown_token_id", U32, MODEL_MAKE_EOT);
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

/* Blocks of 32 weights: d, then nibbles (q - 8) or signed bytes; x becomes what they hold. */
static void put_block(buf *b, float *x, int type)
{
    float most = 1e-6f;
    for (int i = 0; i < 32; i++)
        most = fmaxf(most, fabsf(x[i]));
    uint16_t d = half_from_float(most / (type == Q4_0 ? 7 : 127));
    float step = half_to_float(d);
    long q[32];
    buf_add(b, &d, sizeof d);
    for (int i = 0; i < 32; i++) {
        q[i] = lrintf(x[i] / step);
        x[i] = (float)q[i] * step;
    }
    for (int i = 0; i < (type == Q4_0 ? 16 : 32); i++) {
        long byte = q[i];
        if (type == Q4_0)
            byte = ((q[i] + 8) & 15) | ((q[i + 16] + 8) & 15) << 4;
        buf_char(b, (char)(byte & 255));
    }
}

/* Types of which only random blocks are made: where their scales d and minima m lie, as halves,
 * and what these are for weights of about the spread asked for. -1: has no m. */
static const struct block {
    int type, n_byte, n_weight, at_d, at_m;
    float d, m;
} blocks[] = {
    {3, 20, 32, 0, 2, 0.2f, -1.5f},      /* Q4_1 */
    {6, 22, 32, 0, -1, 0.1f, 0},         /* Q5_0 */
    {7, 24, 32, 0, 2, 0.1f, -1.5f},      /* Q5_1 */
    {10, 84, 256, 80, 82, 0.1f, 0.15f},  /* Q2_K */
    {11, 110, 256, 108, -1, 0.04f, 0},   /* Q3_K */
    {12, 144, 256, 0, 2, 0.006f, 0.04f}, /* Q4_K */
    {13, 176, 256, 0, 2, 0.003f, 0.04f}, /* Q5_K */
    {14, 210, 256, 208, -1, 0.0007f, 0}, /* Q6_K */
    {20, 18, 32, 0, -1, 0.014f, 0},      /* IQ4_NL */
};

static bool put_random_blocks(buf *b, uint64_t rng[RNG_WORDS], int type, int64_t n,
                              double spread)
{
    const struct block *k = blocks, *end = blocks + sizeof blocks / sizeof blocks[0];
    while (k < end && k->type != type)
        k++;
    for (int64_t i = 0; k < end && i < n; i += k->n_weight) {
        char block[256];
        uint16_t d = half_from_float(k->d * (float)(spread * (0.5 + rng_real(rng))));
        uint16_t m = half_from_float(k->m * (float)(spread * (0.5 + rng_real(rng))));
        for (int j = 0; j < k->n_byte; j++)
            block[j] = (char)(rng_bits(rng) >> 32 & 255);
        memcpy(block + k->at_d, &d, sizeof d);
        if (k->at_m >= 0)
            memcpy(block + k->at_m, &m, sizeof m);
        buf_add(b, block, (size_t)k->n_byte);
    }
    return k < end;
}

/* x becomes what the type holds of it. */
static void put_values(buf *b, float *x, int64_t n, int type)
{
    for (int64_t i = 0; i < n; i++) {
        uint16_t h = type == F16 ? half_from_float(x[i]) : bf16_from_float(x[i]);
        if (type == F16)
            x[i] = half_to_float(h);
        if (type == BF16)
            x[i] = bf16_to_float(h);
        if (type == F16 || type == BF16)
            buf_add(b, &h, sizeof h);
    }
    for (int64_t i = 0; (type == Q4_0 || type == Q8_0) && i < n; i += 32)
        put_block(b, x + i, type);
    if (type == F32)
        buf_add(b, x, (size_t)n * sizeof *x);
}

float *model_make_values(const model_make_options *o, const model_make_tensor *t, buf *bytes)
{
    uint64_t rng[RNG_WORDS];
    int64_t n = (int64_t)t->n_col * (t->n_row ? t->n_row : 1);
    double spread = o->spread > 0 ? (double)o->spread : 0.08;
    char key[128];
    snprintf(key, sizeof key, "%llu|%s", (unsigned long long)o->seed, t->name);
    rng_init(rng, key, strlen(key));
    buf none;
    buf_init(&none, 256 << 20);
    float *x = NULL;
    if (!put_random_blocks(bytes ? bytes : &none, rng, t->type, n, spread)) {
        x = calloc((size_t)n, sizeof *x);
        if (!x)
            abort();
        for (int64_t i = 0; i < n; i++)
            x[i] = (float)(t->kind == MODEL_MAKE_NORM ? 1 + 0.1 * normal(rng)
                                                      : spread * normal(rng));
        put_values(bytes ? bytes : &none, x, n, t->type);
    }
    buf_fini(&none);
    return x;
}

typedef struct target {
    gguf_make *m;
    const model_make_options *o;
} target;

static void add_tensor(void *user, const model_make_tensor *t)
{
    const target *to = user;
    uint64_t dim[2] = {(uint64_t)t->n_col, (uint64_t)t->n_row};
    buf b;
    buf_init(&b, 256 << 20);
    free(model_make_values(to->o, t, &b));
    gguf_make_tensor(to->m, t->name, (uint32_t)t->type, t->n_row ? 2 : 1, dim, b.data, b.n);
    buf_fini(&b);
}

/* ---- which tensors there are ---------------------------------------------------------------
 */

enum {
    LLAMA = 1,
    QWEN2 = 2,
    QWEN3 = 4,
    GEMMA3 = 8,
    ALL = LLAMA | QWEN2 | QWEN3 | GEMMA3,
    ROWS_Q = 1, /* sizes that depend on the model */
    ROWS_K,
    ROWS_F,
    ROWS_E,
    HEAD
};

/* A tensor of each layer; rows 0: a vector. */
static const struct each {
    int archs;
    const char *name, *hf; /* behind "blk.N." and "model.layers.N." */
    model_make_kind kind;
    int rows, cols;
} layered[] = {
    {ALL, "attn_norm.weight", "input_layernorm.weight", MODEL_MAKE_NORM, 0, ROWS_E},
    {ALL, "ffn_down.weight", "mlp.down_proj.weight", MODEL_MAKE_MATRIX, ROWS_E, ROWS_F},
    {ALL, "ffn_gate.weight", "mlp.gate_proj.weight", MODEL_MAKE_MATRIX, ROWS_F, ROWS_E},
    {ALL, "ffn_up.weight", "mlp.up_proj.weight", MODEL_MAKE_MATRIX, ROWS_F, ROWS_E},
    {LLAMA | QWEN2 | QWEN3, "ffn_norm.weight", "post_attention_layernorm.weight",
     MODEL_MAKE_NORM, 0, ROWS_E},
    {GEMMA3, "ffn_norm.weight", "pre_feedforward_layernorm.weight", MODEL_MAKE_NORM, 0, ROWS_E},
    {GEMMA3, "post_attention_norm.weight", "post_attention_layernorm.weight", MODEL_MAKE_NORM,
     0, ROWS_E},
    {GEMMA3, "post_ffw_norm.weight", "post_feedforward_layernorm.weight", MODEL_MAKE_NORM, 0,
     ROWS_E},
    {ALL, "attn_k.weight", "self_attn.k_proj.weight", MODEL_MAKE_MATRIX, ROWS_K, ROWS_E},
    {QWEN2, "attn_k.bias", "self_attn.k_proj.bias", MODEL_MAKE_BIAS, 0, ROWS_K},
    {QWEN3 | GEMMA3, "attn_k_norm.weight", "self_attn.k_norm.weight", MODEL_MAKE_NORM, 0, HEAD},
    {ALL, "attn_output.weight", "self_attn.o_proj.weight", MODEL_MAKE_MATRIX, ROWS_E, ROWS_Q},
    {ALL, "attn_q.weight", "self_attn.q_proj.weight", MODEL_MAKE_MATRIX, ROWS_Q, ROWS_E},
    {QWEN2, "attn_q.bias", "self_attn.q_proj.bias", MODEL_MAKE_BIAS, 0, ROWS_Q},
    {QWEN3 | GEMMA3, "attn_q_norm.weight", "self_attn.q_norm.weight", MODEL_MAKE_NORM, 0, HEAD},
    {ALL, "attn_v.weight", "self_attn.v_proj.weight", MODEL_MAKE_MATRIX, ROWS_K, ROWS_E},
    {QWEN2, "attn_v.bias", "self_attn.v_proj.bias", MODEL_MAKE_BIAS, 0, ROWS_K},
};

static int size_of(const model_make_options *o, int what)
{
    const int size[] = {
        0,          o->n_head * o->head_dim, o->n_kv_head * o->head_dim, o->n_ff, o->n_hidden,
        o->head_dim};
    return size[what];
}

/* One that is not known has llama's tensors. */
static int arch_of(const model_make_options *o)
{
    static const char *const name[] = {"qwen2", "qwen3", "gemma3"};
    for (int i = 0; i < 3; i++)
        if (o->arch && strcmp(o->arch, name[i]) == 0)
            return QWEN2 << i;
    return LLAMA;
}

static void give(const model_make_options *o, void (*each)(void *, const model_make_tensor *),
                 void *user, model_make_tensor *t)
{
    if (t->kind != MODEL_MAKE_MATRIX)
        t->type = F32;
    if (!o->drop || strcmp(o->drop, t->name) != 0)
        each(user, t);
}

void model_make_each(const model_make_options *o,
                     void (*each)(void *user, const model_make_tensor *t), void *user)
{
    int rows = o->n_vocab + o->pad_rows, embed_type = o->embed_type ? o->embed_type : o->type;
    model_make_tensor embed = {"token_embd.weight", "model.embed_tokens.weight",
                               MODEL_MAKE_MATRIX,   rows,
                               o->n_hidden,         0,
                               embed_type};
    give(o, each, user, &embed);
    for (int l = 0; l < o->n_layer; l++)
        for (size_t i = 0; i < sizeof layered / sizeof layered[0]; i++) {
            const struct each *e = &layered[i];
            model_make_tensor t = {.kind = e->kind,
                                   .n_row = size_of(o, e->rows),
                                   .n_col = size_of(o, e->cols),
                                   .type = o->type};
            if (!(e->archs & arch_of(o)))
                continue;
            if (arch_of(o) == LLAMA && strcmp(e->name, "attn_q.weight") == 0)
                t.heads = o->n_head;
            if (arch_of(o) == LLAMA && strcmp(e->name, "attn_k.weight") == 0)
                t.heads = o->n_kv_head;
            snprintf(t.name, sizeof t.name, "blk.%d.%s", l, e->name);
            snprintf(t.hf, sizeof t.hf, "model.layers.%d.%s", l, e->hf);
            give(o, each, user, &t);
        }
    model_make_tensor norm = {
        "output_norm.weight", "model.norm.weight", MODEL_MAKE_NORM, 0, o->n_hidden, 0, F32};
    give(o, each, user, &norm);
    model_make_tensor head = {
        "output.weight", "lm_head.weight", MODEL_MAKE_MATRIX, rows, o->n_hidden, 0, embed_type};
    if (!o->tied)
        give(o, each, user, &head);
}

/* ---- the file ------------------------------------------------------------------------------
 */

static void keys(gguf_make *m, const model_make_options *o)
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
    if (o->window > 0) {
        snprintf(key, sizeof key, "%s.attention.sliding_window", arch);
        gguf_make_int(m, key, U32, (uint64_t)o->window);
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

void model_make_keys(gguf_make *m, const model_make_options *o)
{
    keys(m, o);
    if (!o->no_vocab)
        vocabulary(m, o);
}

void model_make_into(gguf_make *m, const model_make_options *o)
{
    target to = {m, o};
    model_make_keys(m, o);
    model_make_each(o, add_tensor, &to);
    if (o->rope_divisor) {
        uint64_t dim = (uint64_t)o->head_dim / 2;
        gguf_make_tensor(m, "rope_freqs.weight", F32, 1, &dim, o->rope_divisor,
                         (size_t)dim * sizeof *o->rope_divisor);
    }
}

bool model_make_gguf(const char *path, const model_make_options *o)
{
    gguf_make m;
    gguf_make_init(&m);
    model_make_into(&m, o);
    bool done = gguf_make_write(&m, path);
    gguf_make_fini(&m);
    return done;
}
