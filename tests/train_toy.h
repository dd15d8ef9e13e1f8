/* train_toy.h - a model of three layers on which the trainer's gradients are checked: hidden
 * 24, 4 query and 2 kv heads of 6 channels, 40 wide, 5 soft tokens, prompts of 17 and 11
 * tokens; llama, or with what other architectures have more. All numbers come from one hash, so
 * that tests/golden/train.py makes the same. */
#ifndef TESTS_TRAIN_TOY_H
#define TESTS_TRAIN_TOY_H

#include "train/lookahead.h"

enum { TOY_LAYERS = 3, TOY_HEADS = 4, TOY_TOKENS = 5, TOY_PROMPT = 17, TOY_SAMPLES = 2 };

typedef struct toy_train {
    int64_t rank;
    unsigned maps;      /* bits of adapter_map_id */
    arch arch;          /* its biases, norms and gate */
    double theta_local; /* of layer 1, where it has a window; 0: as the others */
    int32_t window;     /* of layer 1; 0: none */
    bool mse, prompt_only;
    int n_sample, n_thread;
    const float *target; /* [L H N] of sample 0 in place of the toy's own; NULL */
} toy_train;

/* Toys with what an architecture has: qwen2 biases, qwen3 norms of q and k, gemma3 these, norms
 * behind, GELU, a window and its own rotary base. */
enum { TOY_ARCHS = 3 };
extern const char *const toy_train_names[TOY_ARCHS];
toy_train toy_train_of(int i);

void toy_train_geometry(kvt_geometry *out, const toy_train *t);
/* In [-0.5, 0.5): number i of stream k. */
double toy_number(uint32_t k, uint32_t i);
/* A start with every entry at work, B included; param [n_param]. */
void toy_train_start(double *param, int64_t n);

/* The loss; grad [n_param] or NULL; mass [L H N] of sample 0 or NULL. In f32, in f64. */
double toy_train_run(const toy_train *t, const double *param, double *grad, double *mass);
double toy_train_run_f64(const toy_train *t, const double *param, double *grad, double *mass);

#endif
