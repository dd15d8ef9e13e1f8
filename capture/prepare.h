/* prepare.h - one prompt made ready to run: rendered, tokenized, with its ranges, limits and
 * the digest that resume compares. */
#ifndef CAPTURE_PREPARE_H
#define CAPTURE_PREPARE_H

#include "capture/capture_priv.h"
#include "capture/prompts.h"

typedef struct prepared {
    token_list list; /* the prompt's tokens; the response is pushed behind them */
    template_text text;
    kvt_token_info info; /* all but n_response and stop_reason */
    kvt_span span[PROMPT_SPANS_MAX];
    int n_span;
    buf raw;           /* the prompt as given */
    token_list forced; /* a given response; n 0: none */
    bool is_forced;
    int64_t max_new;                  /* response tokens at most */
    char digest[DIGEST_TEXT];         /* of prompt, model and options */
    char digest_of_file[DIGEST_TEXT]; /* the same with the model's file in place of its weights:
                                       * what traces have that are older than that digest */
    char stream[DIGEST_TEXT]; /* of prompt and model: how a prompt is recorded must not change
                               * what is sampled */
} prepared;

/* What should be known of a whole run, once. */
void prepare_warn(const kvt_model *m, const kvt_capture_spec *spec, const kvt_ctx *ctx);

/* USAGE: empty, longer than the model's context, a span that is not there; FORMAT: not UTF-8.
 */
KVT_CHECKED kvt_code prepare(prepared *p, const kvt_model *m, const kvt_capture_spec *spec,
                             const prompt *item, const kvt_ctx *ctx, kvt_err *err);
void prepared_fini(prepared *p);

/* The only prompt of a spec without a set, as an item: message [2] and item are filled. */
KVT_CHECKED kvt_code prepare_single(prompt *item, template_message message[2],
                                    const kvt_capture_spec *spec, kvt_err *err);

#endif
