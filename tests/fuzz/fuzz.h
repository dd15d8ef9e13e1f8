/* fuzz.h - what a fuzz target defines. With clang, -fsanitize=fuzzer and without driver.c it is
 * a libFuzzer program; with driver.c ctest runs the corpus and seeded changes of it. */
#ifndef TESTS_FUZZ_H
#define TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>

/* Must return 0 for any input, without a report of a sanitizer. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

#endif
