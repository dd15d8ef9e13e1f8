/* test_device.c - the CUDA device on a fake runtime: which GPU, memory, the order of copies,
 * and what is said where it cannot be used. */
#include "tests/check.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "compute/backend.h"
#include "tests/gpu/fake.h"
#include "tests/gpu/shim.h"

enum { N = 1000, BYTES = N * (int)sizeof(float) };

static char logged[1024];
static int n_logged;

static void note(void *user, kvt_log_level level, const char *area, const char *text)
{
    (void)user, (void)area;
    if (level > KVT_LOG_INFO)
        return;
    n_logged++;
    snprintf(logged, sizeof logged, "%s", text);
}

static const kvt_ctx listening = {.log = note};

static kvt_device *opened(void)
{
    kvt_err err;
    kvt_device *d;
    CHECK_OK(fake_device_open(&d, &err), &err);
    return d;
}

static void closed(kvt_device *d)
{
    d->close(d);
    assert_int_equal(fake_held(), 0);
}

static void device_says_what_it_is(void **state)
{
    (void)state;
    kvt_err err;
    kvt_backend *b;
    fake_reset(NULL);
    n_logged = 0;
    unsetenv("CUDA_DEVICE_ORDER");
    CHECK_OK(kvt_backend_open(&b, "cuda:0", &listening, &err), &err);
    const char *name = "Fake GPU A (cuda:0, bus 0000:1B:00.0, 4.0 GiB, sm_90, driver 13.0)";
    assert_string_equal(kvt_backend_name(b), name);
    assert_string_equal(logged, name);
    assert_int_equal(n_logged, 1);
    assert_string_equal(b->device->arithmetic, "cuBLAS 13.0.2, f32 sums, no TF32");
    assert_true(b->device->has_bf16);
    assert_int_equal(b->device->taken, fake_bytes());
    assert_int_equal(b->device->memory, ((int64_t)4 << 30) - fake_bytes());
    char status[256];
    assert_true(kvt_cuda_built());
    assert_non_null(strstr(kvt_cuda_status(status, sizeof status), "yes: Fake GPU A"));
    kvt_backend_close(b);
    assert_int_equal(fake_held(), 0);
}

/* cases.md C077 */
static void other_gpus_have_numbers(void **state)
{
    (void)state;
    kvt_err err;
    kvt_backend *b;
    fake_options o = fake_plain;
    o.n_gpu = 3;
    o.major = 7;
    o.minor = 5;
    fake_reset(&o);
    unsetenv("CUDA_DEVICE_ORDER");
    CHECK_OK(kvt_backend_open(&b, "cuda:2", &listening, &err), &err);
    assert_non_null(strstr(kvt_backend_name(b), "Fake GPU C (cuda:2, bus 0000:1D:00.0"));
    assert_non_null(
        strstr(logged, "; CUDA_DEVICE_ORDER=PCI_BUS_ID numbers GPUs as nvidia-smi"));
    assert_false(b->device->has_bf16);
    kvt_backend_close(b);
    setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 1);
    CHECK_OK(kvt_backend_open(&b, "cuda:1", &listening, &err), &err);
    assert_null(strstr(logged, "CUDA_DEVICE_ORDER"));
    kvt_backend_close(b);
    CHECK_FAILS(kvt_backend_open(&b, "cuda:3", &listening, &err), KVT_DEVICE,
                "there is no GPU cuda:3; there are cuda:0 Fake GPU A, cuda:1 Fake GPU B, "
                "cuda:2 Fake GPU C",
                &err);
    assert_int_equal(fake_held(), 0);
}

static const struct unusable {
    const char *name;
    int n_gpu, driver;
    bool no_image;
    int cublas;
    const char *named; /* KVT_CUBLAS; NULL: the fake */
    const char *text;
} unusables[] = {
    {"no driver", 1, 0, false, 130002, NULL, "no NVIDIA driver was found"},
    {"old driver", 1, 11040, false, 130002, NULL, "too old: it knows CUDA 11.4"},
    {"no GPU", 0, 13000, false, 130002, NULL, "shows no GPU"},
    {"no kernels for it", 1, 13000, true, 130002, NULL,
     "Fake GPU A cannot run the kernels of this build (made for the shim): GPU: probe_kernel: "
     "no kernel image"},
    {"old cuBLAS", 1, 13000, false, 110200, NULL, "cuBLAS 11.2 is too old"},
    {"no cuBLAS", 1, 13000, false, 130002, "/nowhere/libcublas.so.13",
     "cuBLAS was not found (/nowhere/libcublas.so.13"},
    {"another library", 1, 13000, false, 130002, "libm.so.6",
     "cuBLAS 'libm.so.6' is too old: it has no cublasCreate_v2"},
    {"a folder without one", 1, 13000, false, 130002, "/", "KVT_CUBLAS=FOLDER says where"},
};

static void unusable_gpu_is_one_line(void **state)
{
    const struct unusable *u = *state;
    kvt_err err;
    kvt_backend *b;
    fake_options o = fake_plain;
    o.n_gpu = u->n_gpu;
    o.driver = u->driver;
    o.no_image = u->no_image;
    o.cublas = u->cublas;
    fake_reset(&o);
    if (u->named)
        setenv("KVT_CUBLAS", u->named, 1);
    CHECK_FAILS(kvt_backend_open(&b, "cuda:0", NULL, &err), KVT_DEVICE, u->text, &err);
    assert_null(b);
    assert_null(strchr(err.text, '\n'));
    assert_non_null(strstr(err.text, "device 'cuda:0' is not usable: "));
    assert_int_equal(fake_held(), 0);
    n_logged = 0;
    CHECK_OK(kvt_backend_open(&b, "auto", &listening, &err), &err);
    assert_string_equal(kvt_backend_name(b), "cpu");
    assert_null(b->device);
    assert_non_null(strstr(logged, "running on the CPU: "));
    assert_non_null(strstr(logged, u->text));
    kvt_backend_close(b);
    assert_int_equal(fake_held(), 0);
}

static void auto_takes_the_gpu_and_hides_no_shortage(void **state)
{
    (void)state;
    kvt_err err;
    kvt_backend *b;
    fake_options o = fake_plain;
    fake_reset(NULL);
    CHECK_OK(kvt_backend_open(&b, "auto", NULL, &err), &err);
    assert_non_null(b->device);
    kvt_backend_close(b);
    CHECK_OK(kvt_backend_open(&b, "cpu", NULL, &err), &err);
    assert_null(b->device);
    kvt_backend_close(b);
    o.memory = 1 << 20; /* the workspace of cuBLAS has no room */
    fake_reset(&o);
    CHECK_FAILS(kvt_backend_open(&b, "auto", NULL, &err), KVT_NOMEM,
                "the workspace of cuBLAS needs 32.0 MiB, 31.0 MiB short (1.0 MiB are free)",
                &err);
    assert_int_equal(fake_held(), 0);
}

static void folder_of_cublas_may_be_named(void **state)
{
    (void)state;
    kvt_err err;
    kvt_device *d;
    fake_reset(NULL);
    setenv("KVT_CUBLAS", fake_cublas_folder(), 1);
    CHECK_OK(device_open_cuda(&d, 0, NULL, &err), &err);
    closed(d);
}

static void memory_is_counted(void **state)
{
    (void)state;
    kvt_err err;
    void *p, *q, *none;
    kvt_device *d = opened();
    int64_t before = d->taken;
    CHECK_OK(d->alloc(d, &p, 1000, "p", &err), &err);
    CHECK_OK(d->alloc(d, &q, 0, "q", &err), &err);
    assert_int_equal((uintptr_t)p % 256, 0);
    assert_int_equal(d->taken, before + 1000);
    CHECK_FAILS(d->alloc(d, &none, (int64_t)5 << 30, "keys", &err), KVT_NOMEM,
                "out of device memory: keys needs 5120.0 MiB, ", &err);
    assert_null(none);
    d->free(d, p);
    d->free(d, q);
    d->free(d, NULL);
    assert_int_equal(d->taken, before);
    assert_int_equal(d->peak, before + 1000);
    CHECK_OK(d->host_alloc(d, &p, BYTES, &err), &err);
    d->host_free(d, p);
    d->host_free(d, NULL);
    CHECK_OK(d->alloc(d, &p, 1000, "left", &err), &err);
    CHECK_OK(d->host_alloc(d, &p, BYTES, &err), &err);
    closed(d); /* gives back what was left */
}

/* x on the device, uploaded from counts that begin at `first`. */
static float *counted(kvt_device *d, float *host, float first)
{
    kvt_err err;
    void *p;
    for (int i = 0; i < N; i++)
        host[i] = first + (float)i;
    CHECK_OK(d->alloc(d, &p, BYTES, "x", &err), &err);
    CHECK_OK(d->upload(d, p, host, BYTES, &err), &err);
    return p;
}

static void values_go_there_and_back(void **state)
{
    (void)state;
    kvt_err err;
    static float host[N], back[N];
    kvt_device *d = opened();
    float *x = counted(d, host, 0);
    void *y;
    CHECK_OK(d->alloc(d, &y, BYTES, "y", &err), &err);
    CHECK_OK(d->clear(d, y, BYTES, &err), &err);
    CHECK_OK(d->copy(d, y, x, BYTES / 2, &err), &err);
    CHECK_OK(d->add(d, &(dev_add_args){.x = y, .y = x, .n = N, .period = N}, &err), &err);
    CHECK_OK(d->download(d, back, y, BYTES, &err), &err);
    CHECK_OK(d->sync(d, &err), &err);
    for (int i = 0; i < N; i++)
        CHECK_NEAR((double)back[i], i < N / 2 ? 2.0 * i : i, 0);
    closed(d);
}

/* Downloads come as late as they may; copy_hold() keeps what they read. */
static void slots_order_copies(void **state)
{
    (void)state;
    kvt_err err;
    static float host[N];
    float *back[DEV_SLOTS];
    kvt_device *d = opened();
    float *x = counted(d, host, 0);
    for (int s = 0; s < DEV_SLOTS; s++) {
        void *p;
        CHECK_OK(d->host_alloc(d, &p, BYTES, &err), &err);
        back[s] = p;
        memset(p, 0, BYTES);
    }
    for (int s = 0; s < DEV_SLOTS; s++) {
        CHECK_OK(d->copy_begin(d, s, &err), &err);
        CHECK_OK(d->download(d, back[s], x, BYTES, &err), &err);
        CHECK_OK(d->copy_end(d, s, &err), &err);
        CHECK_NEAR((double)back[s][1], 0, 0); /* under way */
        CHECK_OK(d->copy_hold(d, s, &err), &err);
        CHECK_OK(d->clear(d, x, BYTES / 2, &err), &err);
    }
    CHECK_OK(d->copy_wait(d, 0, &err), &err);
    CHECK_NEAR((double)back[0][N / 4], N / 4, 0); /* before it was cleared */
    CHECK_OK(d->copy_wait(d, 1, &err), &err);
    CHECK_NEAR((double)back[1][N / 4], 0, 0);
    CHECK_NEAR((double)back[1][N - 1], N - 1, 0);
    closed(d);
}

/* Without copy_hold() the fake does what a GPU may do: the download sees what came later. */
static void fake_shows_a_missing_hold(void **state)
{
    (void)state;
    kvt_err err;
    static float host[N], back[N];
    kvt_device *d = opened();
    float *x = counted(d, host, 7);
    CHECK_OK(d->copy_begin(d, 0, &err), &err);
    CHECK_OK(d->download(d, back, x, BYTES, &err), &err);
    CHECK_OK(d->copy_end(d, 0, &err), &err);
    CHECK_OK(d->clear(d, x, BYTES, &err), &err);
    CHECK_OK(d->copy_wait(d, 0, &err), &err);
    CHECK_NEAR((double)back[0], 0, 0);
    closed(d);
}

/* Of halves that probes ask for, threads take turns: each begins on the first GPU. */
static void *in_a_thread(void *user)
{
    kvt_device *d = user;
    static float host[N], back[N];
    kvt_err err;
    void *x;
    for (int i = 0; i < N; i++)
        host[i] = (float)i;
    if (d->alloc(d, &x, BYTES, "x", &err) || fake_device_of(x) != 2 ||
        d->upload(d, x, host, BYTES, &err) ||
        d->add(d, &(dev_add_args){.x = x, .y = x, .n = N, .period = N}, &err) ||
        d->copy_begin(d, 1, &err) || d->download(d, back, x, BYTES, &err) ||
        d->copy_end(d, 1, &err) || d->copy_wait(d, 1, &err))
        return NULL;
    d->free(d, x);
    return back + 1;
}

static void every_thread_reaches_its_gpu(void **state)
{
    (void)state;
    kvt_err err;
    kvt_device *d;
    fake_options o = fake_plain;
    o.n_gpu = 3;
    fake_reset(&o);
    CHECK_OK(device_open_cuda(&d, 2, NULL, &err), &err);
    pthread_t thread;
    void *one;
    assert_int_equal(pthread_create(&thread, NULL, in_a_thread, d), 0);
    assert_int_equal(pthread_join(thread, &one), 0);
    assert_non_null(one);
    CHECK_NEAR((double)*(float *)one, 2, 0);
    closed(d);
}

int main(void)
{
    struct CMUnitTest tests[32] = {
        cmocka_unit_test(device_says_what_it_is),
        cmocka_unit_test(other_gpus_have_numbers),
        cmocka_unit_test(auto_takes_the_gpu_and_hides_no_shortage),
        cmocka_unit_test(folder_of_cublas_may_be_named),
        cmocka_unit_test(memory_is_counted),
        cmocka_unit_test(values_go_there_and_back),
        cmocka_unit_test(slots_order_copies),
        cmocka_unit_test(fake_shows_a_missing_hold),
        cmocka_unit_test(every_thread_reaches_its_gpu),
    };
    int n = 9;
    CHECK_ROWS(tests, &n, unusables, unusable_gpu_is_one_line);
    return CHECK_RUN("device", tests, n);
}
