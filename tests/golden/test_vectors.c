/* test_vectors.c - llama.cpp's published vectors: 46 strings with their ids for each
 * vocabulary.
 *
 * The vocabularies are under their models' licences and not part of this repository. KVT_VOCABS
 * names a folder with ggml-vocab-NAME.gguf, .gguf.inp and .gguf.out: vendor/llama.cpp/models in
 * the source distribution of llama-cpp-python 0.3.36. Skipped without it. */
#include "base/file.h"
#include "capture/gguf.h"
#include "capture/tokenizer.h"
#include "../model_path.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const char *folder;

static void must(kvt_code code, const kvt_err *err)
{
    if (code)
        fail_msg("%s", err->text);
}

static void read_part(buf *out, const char *name, const char *ending)
{
    char path[4096];
    kvt_err err;
    snprintf(path, sizeof path, "%s/ggml-vocab-%s.gguf%s", folder, name, ending);
    buf_init(out, 1 << 20);
    must(file_read(out, path, 1 << 20, &err), &err);
}

static void ids_are_those_published(void **state)
{
    static const char mark[] = "\n__ggml_vocab_test__\n";
    const char *name = *state;
    char path[4096];
    kvt_err err;
    gguf *g;
    tokenizer *t;
    buf in, want;
    snprintf(path, sizeof path, "%s/ggml-vocab-%s.gguf", folder, name);
    must(gguf_open(&g, path, &err), &err);
    must(tokenizer_open(&t, g, NULL, &err), &err);
    read_part(&in, name, ".inp");
    read_part(&want, name, ".out");

    const char *text = buf_get(&in);
    char *save = (char *)buf_get(&want);
    int n_string = 0;
    for (const char *end; (end = strstr(text, mark)); text = end + strlen(mark), n_string++) {
        token_list list;
        token_list_init(&list);
        tokenizer_range none = {0, 0};
        must(tokenizer_encode(t, &list, text, (size_t)(end - text), &none, 0, true, &err),
             &err);
        /* The published ids are those without a BOS. */
        for (int64_t k = tokenizer_adds_bos(t); k < list.n; k++) {
            long id = strtol(save, &save, 10);
            if (id != list.id[k])
                fail_msg("%s: string %d, token %lld: expected %ld, got %d", name, n_string,
                         (long long)k, id, (int)list.id[k]);
        }
        save += strspn(save, " ");
        if (*save != '\n')
            fail_msg("%s: string %d has more tokens than %lld", name, n_string,
                     (long long)list.n);
        save++;
        token_list_fini(&list);
    }
    assert_true(n_string >= 45);
    buf_fini(&in);
    buf_fini(&want);
    tokenizer_free(t);
    gguf_close(g);
}

int main(void)
{
    static const char *const names[] = {"gpt-2",     "starcoder", "refact",    "command-r",
                                        "llama-bpe", "qwen2",     "llama-spm", "phi-3"};
    enum { N = sizeof names / sizeof names[0] };
    struct CMUnitTest tests[N];
    if (!(folder = getenv("KVT_VOCABS")) || !*folder) {
        fprintf(stderr, "SKIPPED: KVT_VOCABS names no folder with llama.cpp's vocabularies\n");
        return TEST_SKIPPED;
    }
    for (int i = 0; i < N; i++)
        tests[i] = (struct CMUnitTest){.name = names[i],
                                       .test_func = ids_are_those_published,
                                       .initial_state = (void *)(uintptr_t)names[i]};
    return cmocka_run_group_tests_name("vectors", tests, NULL, NULL);
}
