/* make_trace.c - writes a small trace: make_trace FILE [PROMPT RESPONSE LAYERS [hostile]]. */
#include "tests/synth.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
    synth_spec spec = synth_default();
    kvt_err err;
    if (argc < 2)
        return 2;
    if (argc > 4) {
        spec.n_prompt = atoi(argv[2]);
        spec.n_response = atoi(argv[3]);
        spec.n_layer = atoi(argv[4]);
    }
    spec.hostile = argc > 5 && strcmp(argv[5], "hostile") == 0;
    spec.force = true;
    if (synth_file(&spec, argv[1], &err)) {
        fprintf(stderr, "make_trace: %s\n", err.text);
        return 1;
    }
    return 0;
}
