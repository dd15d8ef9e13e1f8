/* regex.c - the only door to PCRE2.
 *
 * Compiled code (JIT) where the system allows it. Neither it nor the interpreter of PCRE2 10.30
 * and later recurses on the machine stack: JIT has a stack of its own here, and where that is
 * too small the interpreter takes over, whose frames are on the heap, up to a limit. */
#include "base/regex.h"

#include "kvt/arena.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <string.h>

enum { STACK_FIRST = 64 << 10, STACK_MOST = 8 << 20 }; /* bytes */
enum { MATCH_LIMIT = 50 * 1000 * 1000, HEAP_LIMIT_KIB = 512 << 10 };

struct regex {
    pcre2_code *code;
    pcre2_match_data *data;
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
};

static kvt_code fail_pcre(kvt_err *err, kvt_code code, const char *what, int number)
{
    PCRE2_UCHAR text[160];
    if (number == PCRE2_ERROR_NOMEMORY)
        return kvt_fail(err, KVT_NOMEM, "%s: out of memory", what);
    if (pcre2_get_error_message(number, text, sizeof text) < 0)
        return kvt_fail(err, code, "%s: PCRE2 error %d", what, number);
    return kvt_fail(err, code, "%s: %s", what, (const char *)text);
}

kvt_code regex_new(regex **out, const char *pattern, bool ignore_case, kvt_err *err)
{
    *out = NULL;
    uint32_t options = PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C;
    options |= ignore_case ? PCRE2_CASELESS : 0;
    int number;
    PCRE2_SIZE at;
    regex *r = kvt_alloc(1, sizeof *r);
    if (!r)
        return kvt_fail_memory(err, sizeof *r);
    r->code =
        pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, options, &number, &at, NULL);
    if (!r->code) {
        fail_pcre(err, KVT_FORMAT, "pattern", number);
        if (err->code == KVT_FORMAT)
            kvt_within(err, "'%.120s' at byte %zu", pattern, (size_t)at);
        regex_free(r);
        return err->code;
    }
    r->data = pcre2_match_data_create_from_pattern(r->code, NULL);
    r->context = pcre2_match_context_create(NULL);
    if (!r->data || !r->context) {
        regex_free(r);
        return kvt_fail_memory(err, sizeof *r);
    }
    pcre2_set_match_limit(r->context, MATCH_LIMIT);
    pcre2_set_heap_limit(r->context, HEAP_LIMIT_KIB);
    if (!pcre2_jit_compile(r->code, PCRE2_JIT_COMPLETE)) { /* else it is interpreted */
        r->stack = pcre2_jit_stack_create(STACK_FIRST, STACK_MOST, NULL);
        if (r->stack)
            pcre2_jit_stack_assign(r->context, NULL, r->stack);
    }
    *out = r;
    return KVT_OK;
}

void regex_free(regex *r)
{
    if (!r)
        return;
    pcre2_jit_stack_free(r->stack);
    pcre2_match_context_free(r->context);
    pcre2_match_data_free(r->data);
    pcre2_code_free(r->code);
    kvt_free(r);
}

kvt_code regex_find(regex *r, const char *text, size_t n, size_t from, size_t *begin,
                    size_t *end, kvt_err *err)
{
    PCRE2_SPTR s = (PCRE2_SPTR)(n ? text : "");
    uint32_t options = PCRE2_NO_UTF_CHECK;
    int found = pcre2_match(r->code, s, n, from, options, r->data, r->context);
    if (found == PCRE2_ERROR_JIT_STACKLIMIT)
        found = pcre2_match(r->code, s, n, from, options | PCRE2_NO_JIT, r->data, r->context);
    if (found == PCRE2_ERROR_NOMATCH)
        return kvt_fail(err, KVT_NO, "no match");
    if (found < 0)
        return fail_pcre(err, KVT_FORMAT, "matching", found);
    const PCRE2_SIZE *v = pcre2_get_ovector_pointer(r->data);
    *begin = v[0];
    *end = v[1];
    return KVT_OK;
}
