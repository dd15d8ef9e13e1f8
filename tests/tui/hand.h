/* hand.h - a small world for the browser, made by plain loops: a contract as prompt, its answer
 * as response, attention that looks at a few words, and results of policies whose numbers
 * follow from their kept sets. No files.
 *
 * h2o stays inside its budget: it drops a token at every step. snapkv and the oracle decide
 * once. window is skipped at 10 %. tova has a result at 25 % only. */
#ifndef TESTS_HAND_H
#define TESTS_HAND_H

#include "tui/data.h"

typedef struct hand_spec {
    int n_layer, n_kv_head, n_head;
    bool hostile; /* tokens that try to break a terminal */
    bool no_oracle, no_rows, no_text, no_response, no_results;
    int repeat; /* the contract so many times */
} hand_spec;

typedef struct hand hand;

hand *hand_new(const hand_spec *spec); /* fails the test where memory runs out */
void hand_free(hand *h);
tui_data *hand_data(hand *h);
/* Attention of response row m of a lane on token t. */
double hand_attention(const hand *h, int layer, int lane, int64_t m, int64_t t);

#endif
