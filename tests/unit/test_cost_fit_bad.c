/* test_cost_fit_bad - calibrations: files that are refused, by line, with what was expected and
 * got; and points that do not suffice. */
#include "tests/check.h"
#include "tests/unit/cost_fit.h"

#include "kvt/arena.h"

#define HEAD "quantity,geometry,prompt_tokens,seconds\n"
#define LONG "quantity,geometry,prompt_tokens,batch,kv_bits,weight_bits,policy,rows,seconds\n"

static const struct bad_row {
    const char *name, *text, *part; /* of the message */
    kvt_code code;
} bad[] = {
    {"empty file", "", "empty; expected the header", KVT_FORMAT},
    {"header alone", HEAD, "a header and no points", KVT_FORMAT},
    {"unknown column", "quantity,geometry,prompt_token,seconds\n",
     "line 1: unknown column 'prompt_token' (nearest: prompt_tokens)", KVT_FORMAT},
    {"column missing", "quantity,geometry,seconds\n", "line 1: column prompt_tokens is missing",
     KVT_FORMAT},
    {"column twice", "quantity,quantity,geometry,prompt_tokens,seconds\n",
     "line 1: column quantity stands there twice", KVT_FORMAT},
    {"fields missing", HEAD "prefill,llama-3.1-8b,4096\n", "line 2: expected 4 fields, got 3",
     KVT_FORMAT},
    {"quantity", HEAD "prefil,llama-3.1-8b,4096,1\n",
     "line 2: quantity: expected prefill, decode or evict (nearest: prefill), got 'prefil'",
     KVT_FORMAT},
    {"geometry", HEAD "prefill,llama-3.1-8b,4096,1\nprefill,llama-3.1-8,4096,1\n",
     "line 3: ", KVT_FORMAT},
    {"nearest geometry", HEAD "prefill,llama-3.1-8,4096,1\n", "llama-3.1-8b", KVT_FORMAT},
    {"tokens", HEAD "prefill,llama-3.1-8b,4k,1\n",
     "line 2: prompt_tokens: expected a whole number of at least 1, got '4k'", KVT_FORMAT},
    {"no tokens", HEAD "prefill,llama-3.1-8b,0,1\n",
     "line 2: prompt_tokens: expected a whole number of at least 1, got '0'", KVT_FORMAT},
    {"empty tokens", HEAD "prefill,llama-3.1-8b,,1\n", "line 2: prompt_tokens: expected",
     KVT_FORMAT},
    {"negative seconds", HEAD "prefill,llama-3.1-8b,4096,-1\n",
     "line 2: seconds: expected seconds above 0, got '-1'", KVT_FORMAT},
    {"no seconds", HEAD "prefill,llama-3.1-8b,4096,0\n", "line 2: seconds: expected",
     KVT_FORMAT},
    {"seconds nan", HEAD "prefill,llama-3.1-8b,4096,nan\n", "line 2: seconds: expected",
     KVT_FORMAT},
    {"seconds inf", HEAD "prefill,llama-3.1-8b,4096,inf\n", "line 2: seconds: expected",
     KVT_FORMAT},
    {"seconds with a unit", HEAD "prefill,llama-3.1-8b,4096,12ms\n", "got '12ms'", KVT_FORMAT},
    {"batch", LONG "prefill,llama-3.1-8b,4096,0,,,,,1\n",
     "line 2: batch: expected a whole number of at least 1, got '0'", KVT_FORMAT},
    {"kv_bits", LONG "prefill,llama-3.1-8b,4096,,5,,,,1\n",
     "line 2: kv_bits: expected 16, 8 or 4, got '5'", KVT_FORMAT},
    {"weight_bits", LONG "prefill,llama-3.1-8b,4096,,,0.5,,,1\n",
     "line 2: weight_bits: expected 1 to 32, got '0.5'", KVT_FORMAT},
    {"rows of a prefill", LONG "prefill,llama-3.1-8b,4096,,,,,32,1\n",
     "line 2: rows: expected none in a prefill, got 32", KVT_FORMAT},
    {"policy of a decode step", LONG "decode,llama-3.1-8b,4096,,,,h2o,,1\n",
     "line 2: policy: expected none, or full, in a decode, got 'h2o'", KVT_FORMAT},
    {"an eviction without rows", LONG "evict,llama-3.1-8b,4096,,,,,,1\n",
     "line 2: rows: expected the number of scoring queries or a policy, got none", KVT_FORMAT},
    {"a policy without rows", LONG "evict,llama-3.1-8b,4096,,,,streaming,,1\n",
     "the policy scores by none of its own", KVT_FORMAT},
    {"a policy with a draft", LONG "evict,llama-3.1-8b,4096,,,,laq,,1\n", "runs a draft",
     KVT_FORMAT},
    {"unknown policy", LONG "evict,llama-3.1-8b,4096,,,,snapvk,,1\n", "snapkv", KVT_FORMAT},
    {"two policies",
     LONG "evict,llama-3.1-8b,4096,,,,snapkv,,1\nevict,llama-3.1-8b,8192,,,,tova,,1\n",
     "line 3: expected policy 'snapkv' as in line 2, got 'tova'", KVT_FORMAT},
    {"open quote", HEAD "prefill,\"llama-3.1-8b,4096,1\n", "a quote is not closed", KVT_FORMAT},
    {"nothing suffices", HEAD "prefill,llama-3.1-8b,4096,1\ndecode,llama-3.1-8b,4096,1\n",
     "nothing can be fitted: prefill left as it was: 1 point, expected 2; decode left as it "
     "was: "
     "expected 4 points",
     KVT_NO},
    {"a factor 2", HEAD "prefill,llama-3.1-8b,4096,0.1\nprefill,llama-3.1-8b,8192,0.21\n",
     "lengths a factor 2 apart, expected 4", KVT_NO},
    {"the same length", HEAD "prefill,llama-3.1-8b,4096,0.1\nprefill,llama-3.1-8b,4096,0.1\n",
     "prefill: the points do not tell its constants apart: condition number", KVT_NO},
    {"one context",
     LONG "decode,llama-3.1-8b,4096,1,,,,,0.01\ndecode,llama-3.1-8b,4096,1,,,,,0.01\n"
          "decode,llama-3.2-1b,4096,1,,,,,0.002\ndecode,llama-3.2-1b,4096,1,,,,,0.002\n",
     "decode: the points do not tell its constants apart: condition number", KVT_NO},
};

static void is_refused(void **state)
{
    const struct bad_row *r = *state;
    kvt_machine base;
    kvt_calibration c;
    kvt_err err;
    CHECK_OK(kvt_machine_find(&base, "h100-sxm", &err), &err);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(r->text, f);
    fclose(f);
    CHECK_FAILS(kvt_calibrate(&c, &base, path, &err), r->code, r->part, &err);
    assert_null(c.point);
}

/* 4,096 and 4,196 tokens: the number that the same equations have in double precision elsewhere
 * (the square of 165.88, the condition of the scaled columns). */
static void lengths_too_close(void **state)
{
    kvt_machine base;
    kvt_cost_geometry g;
    kvt_calibration c;
    kvt_err err;
    (void)state;
    CHECK_OK(kvt_machine_find(&base, "h100-sxm", &err), &err);
    CHECK_OK(kvt_cost_geometry_find(&g, "llama-3.1-8b", &err), &err);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(HEAD, f);
    for (int64_t n = 4096; n <= 4196; n += 100)
        fprintf(f, "prefill,llama-3.1-8b,%lld,%.17g\n", (long long)n,
                kvt_cost_linear_flops(&g, n) / 989e12 / 0.6 +
                    kvt_cost_attention_flops(&g, n, false) / 989e12 / 0.4);
    fclose(f);
    CHECK_FAILS(kvt_calibrate(&c, &base, path, &err), KVT_NO,
                "condition number 2.75e+04, expected at most 10000", &err);
}

static void other_refusals(void **state)
{
    kvt_machine base;
    kvt_calibration c;
    kvt_err err;
    (void)state;
    CHECK_OK(kvt_cost_profile_find(&base, "paper-lkv", &err), &err);
    CHECK_FAILS(kvt_calibrate(&c, &base, path, &err), KVT_USAGE, "paper", &err);
    CHECK_OK(kvt_machine_find(&base, "phone-sd8g3", &err), &err);
    CHECK_FAILS(kvt_calibrate(&c, &base, "/nowhere/points.csv", &err), KVT_NOTFOUND,
                "/nowhere/points.csv", &err);
    assert_true(base.peak_flops_w4 > 0);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(LONG "prefill,llama-3.2-1b,64,,,4,,,1\n", f);
    fclose(f);
    CHECK_FAILS(kvt_calibrate(&c, &base, path, &err), KVT_FORMAT, "peak_flops_w4", &err);
}

/* Each allocation fails once: the calibration says so, and leaves nothing behind. */
static void memory_runs_out(void **state)
{
    kvt_machine base;
    kvt_calibration c;
    kvt_err err;
    kvt_code code = KVT_NOMEM;
    int64_t n = 0;
    (void)state;
    CHECK_OK(kvt_machine_find(&base, "h100-sxm", &err), &err);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(LONG, f);
    for (int i = 0; i < 4; i++) {
        fprintf(f, "prefill,llama-3.1-8b,%d,,,,,,%g\n", 4096 << i, 0.1 * (1 << i));
        fprintf(f, "decode,%s,%d,,,,,,%g\n", i % 2 ? "qwen3-8b" : "llama-3.2-1b", 4096 << i,
                0.002 + 0.005 * i);
        fprintf(f, "evict,llama-3.1-8b,%d,,,,snapkv,,%g\n", 4096 << i, 0.01 * (1 << i));
    }
    fclose(f);
    while (code) {
        kvt_alloc_fail_at(++n, false);
        code = kvt_calibrate(&c, &base, path, &err);
        kvt_alloc_fail_at(0, false);
        if (code && (code != KVT_NOMEM || c.point))
            fail_msg("allocation %lld: %s: %s", (long long)n, kvt_code_name(code), err.text);
    }
    assert_true(n > 10);
    kvt_calibration_free(&c);
}

int main(void)
{
    struct CMUnitTest tests[CHECK_COUNT(bad) + 3];
    int n = 0;
    CHECK_ROWS(tests, &n, bad, is_refused);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(lengths_too_close);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(other_refusals);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(memory_runs_out);
    return _cmocka_run_group_tests("cost_fit_bad", tests, (size_t)n, open_dir, close_dir);
}
