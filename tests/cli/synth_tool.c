/* synth_tool.c - writes a synthetic trace, for tests that are scripts:
 * synth_tool FILE [prompt=N response=M seed=S level=N compress=1 hostile=1 no_text=1 no_rows=1]
 */
#include "tests/synth.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
    synth_spec s = synth_default();
    kvt_err err;
    s.force = true;
    for (int i = 2; i < argc; i++) {
        const char *value = strchr(argv[i], '=');
        long long x = value ? strtoll(value + 1, NULL, 10) : 0;
        if (!strncmp(argv[i], "prompt=", 7))
            s.n_prompt = x;
        else if (!strncmp(argv[i], "response=", 9))
            s.n_response = x;
        else if (!strncmp(argv[i], "seed=", 5))
            s.seed = (uint64_t)x;
        else if (!strncmp(argv[i], "level=", 6))
            s.level = (kvt_level)x;
        else if (!strncmp(argv[i], "compress=", 9))
            s.compress = x != 0;
        else if (!strncmp(argv[i], "hostile=", 8))
            s.hostile = x != 0;
        else if (!strncmp(argv[i], "no_text=", 8))
            s.no_text = x != 0;
        else if (!strncmp(argv[i], "no_rows=", 8))
            s.no_rows = x != 0;
        else
            return fprintf(stderr, "synth_tool: what is '%s'?\n", argv[i]), 2;
    }
    if (argc < 2)
        return fputs("synth_tool FILE [NAME=VALUE...]\n", stderr), 2;
    if (synth_file(&s, argv[1], &err))
        return fprintf(stderr, "synth_tool: %s\n", err.text), 1;
    return 0;
}
