/* device_cuda.c - kernels on the first GPU (tests/gpu/device.h). */
#include "tests/gpu/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

kvt_device *test_device_open(void)
{
    kvt_device *d;
    kvt_err err;
    if (device_open_cuda(&d, 0, NULL, &err)) {
        fprintf(stderr, "skipped: %s\n", err.text);
        exit(77);
    }
    return d;
}

int test_orders(void)
{
    return 2; /* two runs on one GPU: equal bits */
}

void test_order(int i)
{
    (void)i;
}

const char *test_report(void)
{
    return NULL;
}

/* compute-sanitizer is slow, too. */
bool test_tiny(void)
{
    const char *tiny = getenv("KVT_TEST_TINY");
    return tiny && strcmp(tiny, "1") == 0;
}
