/* real.h - one source, two precisions: with TRAIN_DOUBLE the same file is compiled in double,
 * so that its gradients can be checked by finite differences. Public names of such a file go
 * through TRAIN_REAL, so that both may be in one program. */
#ifndef TRAIN_REAL_H
#define TRAIN_REAL_H

#ifdef TRAIN_DOUBLE
typedef double real;
#define TRAIN_REAL(name) name##_f64
#else
typedef float real;
#define TRAIN_REAL(name) name
#endif

#endif
