/* strings.h - the strings on which tokenizers are compared with the reference libraries.
 *
 * String i depends on i alone (splitmix64 keyed by it), so that the test can make again what
 * the golden ids were made from. They are valid UTF-8 without zero bytes. */
#ifndef GOLDEN_STRINGS_H
#define GOLDEN_STRINGS_H

#include <stddef.h>
#include <stdint.h>

enum { GOLDEN_STRINGS = 6000, GOLDEN_STRING_MAX = 4096 };

/* Writes string i to out [GOLDEN_STRING_MAX]: its length in bytes. */
size_t golden_string(char *out, int i);

/* What a digest of ids is made with: FNV-1a of 64 bits, continued over the bytes of each id
 * (little-endian, 32 bits) and one id of -1 behind each string. Begin with GOLDEN_FNV. */
#define GOLDEN_FNV 0xcbf29ce484222325u
uint64_t golden_add(uint64_t fnv, int32_t id);

#endif
