/* device.h - the device that tests of kernels run on. Two programs of one source: with
 * device_shim.c the kernels run on this processor, with device_cuda.c on the first GPU; without
 * one that program says so and exits with 77. */
#ifndef TESTS_GPU_DEVICE_H
#define TESTS_GPU_DEVICE_H

#include "compute/device.h"

kvt_device *test_device_open(void); /* or ends the program, with a line */
int test_orders(void);              /* runs of a kernel that must give the same bits */
void test_order(int i);             /* the order of threads of run i, and how many run */
const char *test_report(void);      /* what the shim found since test_order(), or NULL */
bool test_tiny(void);               /* slow: one or two tiny shapes a kernel */

#endif
