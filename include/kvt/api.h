/* api.h - what every public header needs: visibility and checked results. */
#ifndef KVT_API_H
#define KVT_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KVT_API               __attribute__((visibility("default")))
#define KVT_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#define KVT_CHECKED           __attribute__((warn_unused_result))

#endif
