/* lab.h - one kernel on a device against its definition on the host, over the same memory.
 *
 *   lab *l = lab_open();
 *   float *x = lab_floats(l, n, 3);                  memory that both sides begin with
 *   lab_near(l, x, DEV_F32, 1e-4, 0);                what may differ, and by how much
 *   dev_add_args a = {...};                          with pointers of the lab
 *   LAB_RUN(l, add, a, P(x) P(y));                   its pointers
 *   ... lab_got(l, x) has the device's result ...
 *   lab_close(l);
 *
 * The kernel runs in several orders of threads from the same memory, with the same bits each
 * time. Whatever is not declared with lab_near() must have the definition's bits afterwards:
 * a value that neither may touch, too. A NAN equals a NAN. A failure ends the test. */
#ifndef TESTS_GPU_LAB_H
#define TESTS_GPU_LAB_H

#include "tests/check.h"
#include "tests/gpu/device.h"

typedef struct lab lab;

typedef enum lab_side { LAB_HOST, LAB_DEVICE } lab_side;

lab *lab_open(void);
void lab_close(lab *l);

float *lab_floats(lab *l, int64_t n, double scale); /* uniform in [-scale, scale] */
double *lab_doubles(lab *l, int64_t n);             /* as lab_floats(), scale 1 */
void *lab_typed(lab *l, dev_type type, int64_t n, double scale);
int32_t *lab_ints(lab *l, int64_t n, int32_t below);   /* [0, below) */
void *lab_blocks(lab *l, int quant, int64_t n_weight); /* scales in [-2, 2] */
void *lab_memory(lab *l, int64_t bytes);               /* 0xff */
double lab_uniform(lab *l, double low, double high);

/* Within rel * |want| + floor, and an ulp of the type where it is of halves. f64: LAB_F64. */
enum { LAB_F64 = 16 };
void lab_near(lab *l, const void *p, int type, double rel, double floor);

const void *lab_got(const lab *l, const void *p);  /* of the device */
const void *lab_want(const lab *l, const void *p); /* of the definition */

/* Inside LAB_RUN. */
void *lab_at(lab *l, lab_side side, const void *p);
kvt_device *lab_device(lab *l, lab_side side);
void lab_begin(lab *l, int order);
void lab_end(lab *l, int order, const char *kernel);
void lab_compare(lab *l, const char *kernel);
void lab_failed(const char *kernel, const kvt_err *err);

#define LAB_RUN(l, kernel, args, pointers)                                     \
    do {                                                                       \
        kvt_err err_;                                                          \
        for (int i_ = -1; i_ < test_orders(); i_++) { /* -1: the definition */ \
            dev_##kernel##_args a_ = (args);                                   \
            lab_side side_ = i_ < 0 ? LAB_HOST : LAB_DEVICE;                   \
            kvt_device *d_ = lab_device((l), side_);                           \
            lab *l_ = (l);                                                     \
            pointers lab_begin(l_, i_);                                        \
            if (d_->kernel(d_, &a_, &err_))                                    \
                lab_failed(#kernel, &err_);                                    \
            lab_end(l_, i_, #kernel);                                          \
        }                                                                      \
        lab_compare((l), #kernel);                                             \
    } while (0)
#define P(member) a_.member = lab_at(l_, side_, a_.member);

#endif
