/* test_cost_machine_bad - names of machines and profiles that are not there, files of users
 * that are refused. */
#include "tests/check.h"

#include <stdio.h>

#include "base/file.h"
#include "kvt/cost.h"
#include "tests/folder.h"

static kvt_err err;

static void names_that_are_not_there(void **state)
{
    (void)state;
    kvt_machine m;
    CHECK_FAILS(kvt_machine_find(&m, "rtx-4080", &err), KVT_USAGE,
                "no machine 'rtx-4080' (did you mean 'rtx-4090'?)", &err);
    CHECK_FAILS(kvt_machine_find(&m, "a\033[2Jb", &err), KVT_USAGE, "no machine 'a<ESC>", &err);
    CHECK_FAILS(kvt_machine_find(&m, "nothing", &err), KVT_USAGE,
                "no machine 'nothing'; there are a100-40, ", &err);
    CHECK_FAILS(kvt_cost_profile_find(&m, "lkv-measure", &err), KVT_USAGE,
                "no profile 'lkv-measure' (did you mean 'lkv-measured'?)", &err);
    CHECK_FAILS(kvt_machine_find(&m, folder_path("not-there.json"), &err), KVT_NOTFOUND,
                "not-there.json", &err);
    CHECK_FAILS(kvt_machine_find(&m, folder_name, &err), KVT_IO, "directory", &err);
}

static const char *written(const char *name, const char *text)
{
    const char *path = folder_path(name);
    CHECK_OK(file_write(path, text, strlen(text), &err), &err);
    return path;
}

/* A machine's file with one text in place of another. */
static const char *changed(const char *from, const char *to)
{
    kvt_machine m;
    buf text, out;
    CHECK_OK(kvt_machine_find(&m, "h100", &err), &err);
    CHECK_OK(kvt_machine_save(&m, folder_path("whole.json"), &err), &err);
    buf_init(&text, 1 << 16);
    buf_init(&out, 1 << 16);
    CHECK_OK(file_read(&text, folder_path("whole.json"), 1 << 16, &err), &err);
    const char *at = strstr(buf_get(&text), from);
    if (!at)
        fail_msg("no '%s' in the file", from);
    buf_add(&out, buf_get(&text), (size_t)(at - buf_get(&text)));
    buf_text(&out, to);
    buf_text(&out, at + strlen(from));
    const char *path = written("machine.json", buf_get(&out));
    buf_fini(&text);
    buf_fini(&out);
    return path;
}

static const struct change_row {
    const char *name, *from, *to, *part;
} changes[] = {
    {"missing", "  \"e_att\": [0.55, \"default\"],\n", "", "'e_att' is missing"},
    {"negative", "\"e_att\": [0.55", "\"e_att\": [-0.55",
     "'e_att': expected 0 to 1, got -0.55"},
    {"too large", "\"e_att\": [0.55", "\"e_att\": [1.01", "'e_att': expected 0 to 1, got 1.01"},
    {"nothing to divide by", "\"e_att\": [0.55", "\"e_att\": [0",
     "'e_att': expected above 0, got 0"},
    {"a rate of nothing", "\"mem_bw\": [3350000000000", "\"mem_bw\": [0",
     "'mem_bw': expected 1 to 1e+16 B/s, got 0"},
    {"no number", "\"e_att\": [0.55", "\"e_att\": [\"0.55\"",
     "'e_att': expected [number, \"origin\"]"},
    {"no pair", "\"e_att\": [0.55, \"default\"]", "\"e_att\": 0.55",
     "'e_att': expected [number, \"origin\"]"},
    {"no origin", "\"e_att\": [0.55, \"default\"]", "\"e_att\": [0.55]",
     "'e_att': expected [number, \"origin\"]"},
    {"three of them", "\"e_att\": [0.55, \"default\"]", "\"e_att\": [0.55, \"default\", 1]",
     "'e_att': expected [number, \"origin\"]"},
    {"an unknown origin", "\"e_att\": [0.55, \"default\"]", "\"e_att\": [0.55, \"guess\"]",
     "'e_att': expected the origin vendor, kernel-fit, calibrated or default"},
    {"unknown", "\"e_att\":", "\"e_atk\":", "unknown member 'e_atk' (did you mean 'e_att'?)"},
    {"twice", "\"e_att\":", "\"e_att\": [0.5, \"default\"], \"e_att\":", "duplicate"},
    {"not a number", "\"e_att\": [0.55", "\"e_att\": [NaN", "JSON: line"},
    {"infinite", "\"e_att\": [0.55", "\"e_att\": [1e999", "JSON: line"},
    {"no engine", "  \"engine\": \"fused\",\n", "", "'engine' is missing"},
    {"an unknown engine", "\"engine\": \"fused\"", "\"engine\": \"fast\"",
     "'engine': expected fused, eager or paper, got 'fast'"},
    {"no name", "  \"name\": \"h100-sxm\",\n", "", "'name' is missing"},
    {"an empty name", "\"name\": \"h100-sxm\"", "\"name\": \"\"", "'name': expected a line"},
    {"two lines of title", "\"title\": \"", "\"title\": \"a\\nb", "'title': expected a line"},
    {"aliases that are none",
     "\"engine\":", "\"aliases\": \"x\", \"engine\":", "'aliases': expected an array of texts"},
    {"a range that ends before it begins", "\"range_from\": [0", "\"range_from\": [9",
     "'range_from' 9: expected at most 'range_to', which is 0"},
    {"cut", "\"band_bytes\": [0.02, \"default\"]\n}", "\"band_bytes\": [0.02", "JSON: line"},
};

static void machine_file_is_refused(void **state)
{
    const struct change_row *r = *state;
    kvt_machine m;
    kvt_code code = kvt_machine_find(&m, changed(r->from, r->to), &err);
    check_fails(code, KVT_FORMAT, r->part, &err, r->name);
    check_fails(code, KVT_FORMAT, "machine.json", &err, r->name);
}

static void machine_without_peaks_is_refused(void **state)
{
    (void)state;
    kvt_machine m;
    CHECK_OK(kvt_machine_find(&m, "cpu", &err), &err);
    assert_true(m.peak_flops_16 == 0 && m.peak_flops_32 > 0); /* one of them is enough */
    m.peak_flops_32 = 0;
    CHECK_OK(kvt_machine_save(&m, folder_path("none.json"), &err), &err);
    CHECK_FAILS(kvt_machine_find(&m, folder_path("none.json"), &err), KVT_FORMAT,
                "'peak_flops_16', 'peak_flops_32': expected one above 0", &err);
}

int main(void)
{
    static const struct CMUnitTest single[] = {
        cmocka_unit_test(names_that_are_not_there),
        cmocka_unit_test(machine_without_peaks_is_refused),
    };
    struct CMUnitTest tests[CHECK_COUNT(single) + CHECK_COUNT(changes)];
    int n = 0;
    for (int i = 0; i < CHECK_COUNT(single); i++)
        tests[n++] = single[i];
    CHECK_ROWS(tests, &n, changes, machine_file_is_refused);
    folder_new();
    int failed = CHECK_RUN("cost machines that are refused", tests, n);
    folder_end();
    return failed;
}
