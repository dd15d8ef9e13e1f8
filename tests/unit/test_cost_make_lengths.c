/* test_cost_make_lengths - lengths of prompts as people type them, and what is refused. */
#include "tests/check.h"

#include <stdio.h>

#include "kvt/cost.h"

static const struct length_row {
    const char *in, *want; /* lengths, or a part of the message */
    kvt_code code;
} lengths[] = {
    {"4096", "4096", KVT_OK},
    {"4Ki,8192,1K", "1000 4096 8192", KVT_OK},
    {"1.5Ki", "1536", KVT_OK},
    {"1M,1Mi", "1000000 1048576", KVT_OK},
    {"4Ki..32Kix2", "4096 8192 16384 32768", KVT_OK},
    {"4Ki..32Ki", "4096 8192 16384 32768", KVT_OK},
    {"8Ki,4Ki..8Ki", "4096 8192", KVT_OK}, /* each once, rising */
    {"100..250x1.5", "100 150 225", KVT_OK},
    {"1..4x1.1", "1 2 3 4", KVT_OK}, /* a factor near 1 still moves on */
    {"1Gi", "1073741824", KVT_OK},
    {"0", "from 1 to", KVT_USAGE},
    {"4Kb", "'4Kb'", KVT_USAGE},
    {"4KiB", "whole number of tokens", KVT_USAGE},
    {"4ki", "whole number of tokens", KVT_USAGE},
    {"1.0001Ki", "whole number of tokens", KVT_USAGE},
    {"-3", "whole number of tokens", KVT_USAGE},
    {"2Gi", "from 1 to", KVT_USAGE},
    {"1e3", "whole number of tokens", KVT_USAGE},
    {"Ki", "whole number of tokens", KVT_USAGE},
    {"", "at least one", KVT_USAGE},
    {"4Ki,,8Ki", "whole number of tokens", KVT_USAGE},
    {"8Ki..4Ki", "smaller one first", KVT_USAGE},
    {"4Ki..8Kix1", "factor above 1", KVT_USAGE},
    {"4Ki..8Kix", "factor above 1", KVT_USAGE},
    {"1..20x1.01", "more than 16", KVT_USAGE},
};

static void is_read(void **state)
{
    const struct length_row *r = *state;
    int64_t length[16];
    char got[256] = "";
    kvt_err err;
    int n;
    kvt_code code = kvt_lengths_parse(length, 16, &n, r->in, &err);
    if (code != r->code)
        fail_msg("'%s': expected %s, got %s (%s)", r->in, kvt_code_name(r->code),
                 kvt_code_name(code), code ? err.text : "");
    for (int i = 0; !code && i < n; i++)
        snprintf(got + strlen(got), sizeof got - strlen(got), "%s%lld", i ? " " : "",
                 (long long)length[i]);
    if (!code)
        assert_string_equal(got, r->want);
    else if (!strstr(err.text, r->want))
        fail_msg("'%s': expected '%s' in '%s'", r->in, r->want, err.text);
}

int main(void)
{
    struct CMUnitTest tests[CHECK_COUNT(lengths)];
    int n = 0;
    CHECK_ROWS(tests, &n, lengths, is_read);
    return CHECK_RUN("cost_make_lengths", tests, n);
}
