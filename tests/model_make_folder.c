/* model_make_folder.c - the models of model_make.c as Hugging Face folders. A writer of
 * safetensors of its own, for the reason that stands in gguf_make.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/half.h"
#include "tests/model_make.h"

enum { F32 = 0, F16 = 1, BF16 = 30, PARTS_MAX = 8, LIMIT = 256 << 20 };

typedef struct folder {
    const char *path;
    const model_make_options *o;
    const model_make_folder_options *f;
    int n_tensor, n_seen, n_part;
    buf header[PARTS_MAX], data[PARTS_MAX];
    buf map; /* members of weight_map */
    bool failed;
} folder;

static void part_name(char out[64], int part, int n_part)
{
    if (n_part > 1)
        snprintf(out, 64, "model-%05d-of-%05d.safetensors", part + 1, n_part);
    else
        snprintf(out, 64, "model.safetensors");
}

static bool write_file(const char *path, const char *name, const void *bytes, size_t n)
{
    char to[4096];
    kvt_err err;
    snprintf(to, sizeof to, "%s/%s", path, name);
    if (file_write(to, bytes, n, &err) == KVT_OK)
        return true;
    fprintf(stderr, "model_make_folder: %s\n", err.text);
    return false;
}

static bool is_gemma(const model_make_options *o)
{
    return o->arch && strcmp(o->arch, "gemma3") == 0;
}

/* A converter put old row s D/2 + i of a head at 2i + s. */
static void to_halves(float *x, const model_make_tensor *t)
{
    int d = t->n_row / t->heads;
    size_t row = (size_t)t->n_col, n = (size_t)t->n_row * row;
    float *old = malloc(n * sizeof *old);
    if (!old)
        abort();
    memcpy(old, x, n * sizeof *x);
    for (int h = 0; h < t->heads; h++)
        for (int i = 0; i < d; i++)
            memcpy(x + (size_t)(h * d + i % 2 * (d / 2) + i / 2) * row,
                   old + (size_t)(h * d + i) * row, row * sizeof *x);
    free(old);
}

static void put(buf *b, const float *x, int64_t n, int type)
{
    for (int64_t i = 0; i < n; i++) {
        uint16_t h = type == F16 ? half_from_float(x[i]) : bf16_from_float(x[i]);
        if (type == F32)
            buf_add(b, &x[i], sizeof x[i]);
        else
            buf_add(b, &h, sizeof h);
    }
}

static void count(void *user, const model_make_tensor *t)
{
    (void)t;
    ++*(int *)user;
}

static void add(void *user, const model_make_tensor *t)
{
    folder *to = user;
    int type = t->type == F16 || t->type == BF16 ? t->type : F32;
    int part = (int)((int64_t)to->n_seen++ * to->n_part / to->n_tensor);
    int64_t n = (int64_t)t->n_col * (t->n_row ? t->n_row : 1);
    char file[64];
    buf *head = &to->header[part], *data = &to->data[part];
    float *x = model_make_values(to->o, t, NULL);
    if (!x) {
        fprintf(stderr, "model_make_folder: the values of type %d are not known\n", t->type);
        to->failed = true;
        return;
    }
    if (t->heads)
        to_halves(x, t);
    for (int64_t i = 0; t->kind == MODEL_MAKE_NORM && is_gemma(to->o) && i < n; i++)
        x[i] -= 1;
    size_t begin = data->n;
    put(data, x, n, type);
    free(x);
    const char *prefix = to->f->nested ? "language_model." : "";
    buf_printf(head, "%s\"%s%s\": {\"dtype\": \"%s\", \"shape\": [", head->n ? ", " : "",
               prefix, t->hf,
               type == F16    ? "F16"
               : type == BF16 ? "BF16"
                              : "F32");
    if (t->n_row)
        buf_printf(head, "%d, ", t->n_row);
    buf_printf(head, "%d], \"data_offsets\": [%zu, %zu]}", t->n_col, begin, data->n);
    part_name(file, part, to->n_part);
    buf_printf(&to->map, "%s\n    \"%s%s\": \"%s\"", to->map.n ? "," : "", prefix, t->hf, file);
}

/* u64 length, JSON padded to 8 bytes, data. */
static void write_part(folder *to, int part)
{
    static const char meta[] = ", \"__metadata__\": {\"format\": \"pt\"}}";
    char name[64];
    buf *head = &to->header[part], all;
    size_t pad = (8 - (1 + head->n + sizeof meta - 1) % 8) % 8;
    uint64_t n = 1 + head->n + sizeof meta - 1 + pad;
    buf_init(&all, LIMIT);
    for (int i = 0; i < 8; i++)
        buf_char(&all, (char)(n >> 8 * i & 255));
    buf_char(&all, '{');
    buf_add(&all, head->data, head->n);
    buf_add(&all, meta, sizeof meta - 1);
    for (size_t i = 0; i < pad; i++)
        buf_char(&all, ' ');
    buf_add(&all, to->data[part].data, to->data[part].n);
    part_name(name, part, to->n_part);
    to->failed |= !write_file(to->path, name, all.data, all.n);
    buf_fini(&all);
}

static void write_index(folder *to)
{
    buf all;
    size_t total = 0;
    for (int i = 0; i < to->n_part; i++)
        total += to->data[i].n;
    buf_init(&all, LIMIT);
    buf_printf(&all, "{\"metadata\": {\"total_size\": %zu}, \"weight_map\": {", total);
    buf_add(&all, to->map.data, to->map.n);
    buf_printf(&all, "\n}}\n");
    to->failed |= !write_file(to->path, "model.safetensors.index.json", all.data, all.n);
    buf_fini(&all);
}

/* ---- config.json ---------------------------------------------------------------------------
 */

/* The rotary fields behind the base: "rope_type": "linear", "factor": 8. */
static void put_rope(buf *b, const folder *to)
{
    const model_make_options *o = to->o;
    const char *key = to->f->v5 || is_gemma(o) ? "rope_type" : "type"; /* both were used */
    if (to->f->rope)
        buf_printf(b, "%s", to->f->rope);
    else if (o->rope_scaling)
        buf_printf(b, "\"%s\": \"%s\", \"factor\": %g", key, o->rope_scaling, o->rope_factor);
    else
        buf_printf(b, "\"%s\": \"default\"", key);
    if (!to->f->rope && o->rope_scaling && o->rope_original > 0)
        buf_printf(b, ", \"original_max_position_embeddings\": %g", o->rope_original);
}

static void put_rope_fields(buf *b, const folder *to)
{
    const model_make_options *o = to->o;
    double theta = o->rope_theta > 0 ? o->rope_theta : 10000;
    bool scaled = o->rope_scaling || to->f->rope;
    if (!to->f->v5) {
        buf_printf(b, "  \"rope_theta\": %.1f,\n  \"rope_scaling\": %s", theta,
                   scaled ? "{" : "null");
        if (scaled)
            put_rope(b, to);
        buf_printf(b, "%s,\n", scaled ? "}" : "");
        if (is_gemma(o))
            buf_printf(b, "  \"rope_local_base_freq\": 10000.0,\n");
        return;
    }
    buf_printf(b, "  \"rope_parameters\": {%s\"rope_theta\": %.1f, ",
               is_gemma(o) ? "\"full_attention\": {" : "", theta);
    put_rope(b, to);
    buf_printf(b, "%s},\n",
               is_gemma(o) ? "}, \"sliding_attention\": {\"rope_type\": \"default\", "
                             "\"rope_theta\": 10000.0}"
                           : "");
}

static void put_gemma(buf *b, const folder *to)
{
    const model_make_options *o = to->o;
    buf_printf(b, "  \"query_pre_attn_scalar\": %d,\n", o->head_dim);
    buf_printf(b, "  \"hidden_activation\": \"gelu_pytorch_tanh\",\n");
    if (o->window > 0)
        buf_printf(b, "  \"sliding_window\": %d,\n", o->window);
    if (!to->f->v5) {
        buf_printf(b, "  \"sliding_window_pattern\": 6,\n");
        return;
    }
    buf_printf(b, "  \"layer_types\": [");
    for (int l = 0; l < o->n_layer; l++)
        buf_printf(b, "%s\"%s\"", l ? ", " : "",
                   l % 6 == 5 ? "full_attention" : "sliding_attention");
    buf_printf(b, "],\n");
}

static void put_config(buf *b, const folder *to)
{
    static const char *const class[] = {"LlamaForCausalLM", "Qwen2ForCausalLM",
                                        "Qwen3ForCausalLM", "Gemma3ForCausalLM"};
    const model_make_options *o = to->o;
    const char *arch = o->arch ? o->arch : "llama";
    int which = strcmp(arch, "qwen2") == 0 ? 1 : strcmp(arch, "qwen3") == 0 ? 2 : 0;
    which = is_gemma(o) ? 3 : which;
    buf_printf(b, "{\n  \"architectures\": [\"%s\"],\n", class[which]);
    buf_printf(b, "  \"model_type\": \"%s%s\",\n", arch, is_gemma(o) ? "_text" : "");
    buf_printf(b, "  \"num_hidden_layers\": %d,\n  \"hidden_size\": %d,\n", o->n_layer,
               o->n_hidden);
    buf_printf(b, "  \"intermediate_size\": %d,\n  \"num_attention_heads\": %d,\n", o->n_ff,
               o->n_head);
    buf_printf(b, "  \"num_key_value_heads\": %d,\n", o->n_kv_head);
    if (which != 1) /* qwen2 has no such field */
        buf_printf(b, "  \"head_dim\": %d,\n", o->head_dim);
    buf_printf(b, "  \"vocab_size\": %d,\n  \"max_position_embeddings\": %d,\n",
               o->n_vocab + o->pad_rows, o->n_context);
    buf_printf(b, "  \"rms_norm_eps\": 1e-05,\n  \"tie_word_embeddings\": %s,\n",
               o->tied ? "true" : "false");
    put_rope_fields(b, to);
    if (is_gemma(o))
        put_gemma(b, to);
    else
        buf_printf(b, "  \"hidden_act\": \"silu\",\n");
    if (to->f->extra)
        buf_printf(b, "  %s,\n", to->f->extra);
    buf_printf(b, "  \"bos_token_id\": %d,\n  \"eos_token_id\": [%d, %d],\n", MODEL_MAKE_START,
               MODEL_MAKE_END, MODEL_MAKE_EOT);
    buf_printf(b, "  \"%s\": \"%s\"\n}", to->f->v5 ? "dtype" : "torch_dtype",
               o->type == F16    ? "float16"
               : o->type == BF16 ? "bfloat16"
                                 : "float32");
}

static void write_config(folder *to)
{
    buf b;
    buf_init(&b, LIMIT);
    if (to->f->nested)
        buf_printf(&b, "{\"architectures\": [\"Gemma3ForConditionalGeneration\"], "
                       "\"model_type\": \"gemma3\", \"vision_config\": {}, \"text_config\": ");
    put_config(&b, to);
    buf_printf(&b, "%s\n", to->f->nested ? "}" : "");
    to->failed |= !write_file(to->path, "config.json", b.data, b.n);
    buf_fini(&b);
}

bool model_make_folder(const char *path, const model_make_options *o,
                       const model_make_folder_options *f)
{
    static const model_make_folder_options plain;
    folder to = {.path = path, .o = o, .f = f ? f : &plain};
    kvt_err err;
    to.n_part = to.f->n_part > 1 ? to.f->n_part : 1;
    if (file_mkdirs(path, &err)) {
        fprintf(stderr, "model_make_folder: %s\n", err.text);
        return false;
    }
    buf_init(&to.map, LIMIT);
    for (int i = 0; i < PARTS_MAX; i++) {
        buf_init(&to.header[i], LIMIT);
        buf_init(&to.data[i], LIMIT);
    }
    model_make_each(o, count, &to.n_tensor);
    model_make_each(o, add, &to);
    for (int i = 0; i < to.n_part && !to.failed; i++)
        write_part(&to, i);
    if (to.n_part > 1)
        write_index(&to);
    if (!to.f->no_config)
        write_config(&to);
    for (int i = 0; i < PARTS_MAX; i++) {
        buf_fini(&to.header[i]);
        buf_fini(&to.data[i]);
    }
    buf_fini(&to.map);
    return !to.failed && (!to.f->more || to.f->more(path, o));
}
