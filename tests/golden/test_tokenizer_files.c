/* test_tokenizer_files.c - tokenizer.json files against the ids of their own library.
 *
 * tests/golden/tokenizers/NAME/ holds a small file of each known shape and digests of the ids
 * of the golden strings, both made by tokenizer_files.py. KVT_TOKENIZERS names a folder of such
 * folders over real vocabularies, which are not part of this repository. */
#include "base/file.h"
#include "capture/tokenizer.h"
#include "kvt/arena.h"
#include "strings.h"
#include "tests/check.h"

#include <stdio.h>
#include <stdlib.h>

enum { MOST = 32 };

typedef struct shape {
    char name[64];
    char folder[512];
} shape;

static shape shapes[MOST];
static int n_shape;

/* The ids of string i into the digest, and whether ranges tile the text. */
static uint64_t add_string(tokenizer *t, int i, uint64_t fnv)
{
    static char text[GOLDEN_STRING_MAX];
    kvt_err err;
    token_list list;
    size_t n = golden_string(text, i);
    token_list_init(&list);
    CHECK_OK(tokenizer_encode(t, &list, text, n, NULL, 0, true, &err), &err);
    for (int64_t k = tokenizer_adds_bos(t); k < list.n; k++) {
        token_text bytes = tokenizer_bytes(t, list.id[k]);
        int64_t size = list.offset[k + 1] - list.offset[k];
        fnv = golden_add(fnv, list.id[k]);
        if (list.n_lost == 0 &&
            (size != (int64_t)bytes.n ||
             memcmp(buf_get(&list.text) + list.offset[k], bytes.data, bytes.n) != 0))
            fail_msg("string %d: token %lld (id %d) is not its bytes of the text", i,
                     (long long)k, (int)list.id[k]);
    }
    assert_int_equal(list.n ? list.offset[list.n] : list.carry, (int64_t)list.text.n);
    token_list_fini(&list);
    return golden_add(fnv, -1);
}

static void ids_are_those_of_the_library(void **state)
{
    const shape *s = *state;
    char path[600], line[200];
    kvt_err err;
    tokenizer *t;
    int n_block = 0, n_wrong = 0, first, count;
    unsigned long long want;
    CHECK_OK(tokenizer_open_folder(&t, s->folder, NULL, &err), &err);
    snprintf(path, sizeof path, "%s/ids.txt", s->folder);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        if (sscanf(line, "ids %d %d %llx", &first, &count, &want) != 3)
            continue;
        uint64_t fnv = GOLDEN_FNV;
        for (int i = first; i < first + count; i++)
            fnv = add_string(t, i, fnv);
        if (fnv != want) {
            print_error(
                "%s: strings %d to %d: digest of the ids: expected %016llx, got %016llx\n",
                s->name, first, first + count - 1, want, (unsigned long long)fnv);
            n_wrong++;
        }
        n_block++;
    }
    fclose(f);
    tokenizer_free(t);
    assert_int_equal(n_wrong, 0);
    assert_int_equal(n_block, GOLDEN_STRINGS / 100);
}

static kvt_code add_shape(void *user, const char *name, kvt_err *err)
{
    shape *s = &shapes[n_shape];
    char path[600];
    (void)err;
    snprintf(path, sizeof path, "%s/%s/ids.txt", (const char *)user, name);
    if (n_shape == MOST || !file_exists(path))
        return KVT_OK;
    snprintf(s->name, sizeof s->name, "%.60s", name);
    snprintf(s->folder, sizeof s->folder, "%.300s/%.200s", (const char *)user, name);
    n_shape++;
    return KVT_OK;
}

int main(void)
{
    static struct CMUnitTest tests[MOST];
    static char ours[] = KVT_SOURCE_DIR "/tests/golden/tokenizers";
    char *real = getenv("KVT_TOKENIZERS");
    kvt_err err;
    if (file_list(ours, add_shape, ours, &err) || n_shape < 7 ||
        (real && *real && file_list(real, add_shape, real, &err))) {
        fprintf(stderr, "tokenizer files: %d of them\n", n_shape);
        return 1;
    }
    for (int i = 0; i < n_shape; i++)
        tests[i] = (struct CMUnitTest){.name = shapes[i].name,
                                       .test_func = ids_are_those_of_the_library,
                                       .initial_state = &shapes[i]};
    return CHECK_RUN("tokenizer files", tests, n_shape);
}
