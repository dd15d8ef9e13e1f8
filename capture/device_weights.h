/* device_weights.h - a model's weights in the memory of a device.
 *
 *   device_weights *w;
 *   if (device_weights_new(&w, device, host_weights, &err)) ...
 *   w->layer[l].wq.data                  device memory, in the type of the file
 *   device_weights_free(w);
 *
 * Matrices lie as the file has them: a product of many rows takes one as it is where it has the
 * type of the activations, and else a copy in that type, made one matrix at a time; a product
 * of one row reads it as it lies. The type of the activations, and of keys and values:
 *
 *   f32    where a matrix is f32 (--weights f32), and for bf16 on a device that has none
 *   bf16   where a matrix is bf16, and for Gemma, whose residual goes beyond what f16 holds
 *   f16    else
 *
 * Needs of ours: base/, compute/. */
#ifndef CAPTURE_DEVICE_WEIGHTS_H
#define CAPTURE_DEVICE_WEIGHTS_H

#include "capture/weights.h"
#include "compute/device.h"

typedef struct device_weights {
    kvt_device *device;           /* borrowed */
    const kvt_geometry *geometry; /* borrowed, as that of the host's weights */
    dev_type type;                /* of activations, keys and values */
    bool gelu;
    kvt_weights_layer *layer; /* [n_layer]; what they point to is device memory, as below */
    kvt_matrix embed, lm_head;
    const float *out_norm;
    int64_t bytes;  /* of device memory */
    int64_t widest; /* values of the largest matrix of a layer that has another type; 0: none */
    void **block;   /* [n_layer + 1] of device memory; the last one's is of no layer */
} device_weights;

/* NOMEM where the device is full. */
KVT_CHECKED kvt_code device_weights_new(device_weights **out, kvt_device *d,
                                        const kvt_weights *host, kvt_err *err);
void device_weights_free(device_weights *w); /* NULL is fine */

/* Without a device, for --plan: everything but pointers. The weights may be those of which only
 * the header was read. */
void device_weights_plan(device_weights *out, const kvt_weights *host, bool has_bf16);

static inline int device_quant(dev_type t)
{
    return t == DEV_F32 ? QUANT_F32 : t == DEV_F16 ? QUANT_F16 : QUANT_BF16;
}

static inline const char *device_type_name(dev_type t)
{
    return t == DEV_F32 ? "f32" : t == DEV_F16 ? "f16" : "bf16";
}

#endif
