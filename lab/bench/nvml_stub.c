/* NVML as compiled code, as a real driver's is: Hopper GPUs that answer what the stub in Python answers
 * (nvml_stub.py, gpus()), each function after the same delay, slept. Functions that it lacks the agent does not call.
 *
 * stub_functions, stub_names, stub_calls: how often each function was called. stub_gpus: how many there are. stub_delay_ns: of a call.
 * stub_at_s: seconds that counters have counted; negative: since the library was opened.
 */

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define FUNCTIONS(X) \
    X(nvmlInitWithFlags) X(nvmlShutdown) X(nvmlSystemGetDriverVersion) X(nvmlDeviceGetCount_v2) \
    X(nvmlDeviceGetHandleByIndex_v2) X(nvmlDeviceGetHandleByUUID) X(nvmlDeviceGetUUID) X(nvmlDeviceGetName) \
    X(nvmlDeviceGetMigMode) X(nvmlDeviceGetMemoryInfo_v2) X(nvmlDeviceGetUtilizationRates) \
    X(nvmlDeviceGetEncoderUtilization) X(nvmlDeviceGetDecoderUtilization) X(nvmlDeviceGetTemperatureV) \
    X(nvmlDeviceGetMarginTemperature) X(nvmlDeviceGetEnforcedPowerLimit) X(nvmlDeviceGetPerformanceState) \
    X(nvmlDeviceGetCurrPcieLinkGeneration) X(nvmlDeviceGetMaxPcieLinkGeneration) \
    X(nvmlDeviceGetCurrPcieLinkWidth) X(nvmlDeviceGetMaxPcieLinkWidth) \
    X(nvmlDeviceGetClockInfo) X(nvmlDeviceGetCurrentClocksEventReasons) X(nvmlDeviceGetSupportedEventTypes) \
    X(nvmlDeviceGetFieldValues) X(nvmlGpmQueryDeviceSupport) X(nvmlGpmSampleAlloc) X(nvmlGpmSampleFree) \
    X(nvmlGpmSampleGet) X(nvmlGpmMetricsGet) X(nvmlEventSetCreate) X(nvmlEventSetFree) X(nvmlDeviceRegisterEvents) \
    X(nvmlEventSetWait_v2) X(nvmlDeviceGetComputeRunningProcesses_v3) X(nvmlDeviceGetMPSComputeRunningProcesses_v3) \
    X(nvmlDeviceGetProcessUtilization)
#define PLACE(name) PLACE_##name,
#define NAME(name) #name,
enum { FUNCTIONS(PLACE) COUNT };

enum { OK = 0, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, TIMEOUT = 10 };
enum { UNSIGNED_LONG_LONG = 3 };
enum { GPUS_MAX = 64, SAMPLES_MAX = 4 * GPUS_MAX };

const int stub_functions = COUNT;
const char *const stub_names[] = {FUNCTIONS(NAME)};
unsigned long stub_calls[COUNT];
int stub_gpus = 8;
long stub_delay_ns;
double stub_at_s = -1;

typedef struct { char uuid[48]; } gpu;
typedef struct { unsigned version; uint64_t total, reserved, free, used; } memory_v2;
typedef struct { unsigned version, sensor; int celsius; } temperature_v1;
typedef struct { unsigned version; int celsius; } margin_v1;
typedef struct { unsigned id, scope; int64_t timestamp, latency; unsigned type, code; uint64_t value; } field_value;
typedef struct { unsigned id, code; double value; const char *words[3]; } gpm_metric;
typedef struct { unsigned version, count; void *sample1, *sample2; gpm_metric metrics[]; } gpm_request;
typedef struct { unsigned version, supported; } gpm_support;
typedef struct { unsigned pid; uint64_t used; unsigned gpu_instance, compute_instance; } process;
typedef struct { unsigned pid; uint64_t at; unsigned sm, memory, encoder, decoder; } process_sample;

static gpu gpus[GPUS_MAX];
static char samples[SAMPLES_MAX], events;
static int samples_made;
static struct timespec opened;

static void entered(int place) {
    struct timespec delay = {0, stub_delay_ns};
    __atomic_add_fetch(&stub_calls[place], 1, __ATOMIC_RELAXED);
    if (stub_delay_ns) nanosleep(&delay, 0);
}
#define ENTERED(name) entered(PLACE_##name)

static double counted_s(void) {
    struct timespec now;
    if (stub_at_s >= 0) return stub_at_s;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - opened.tv_sec) + (double)(now.tv_nsec - opened.tv_nsec) / 1e9;
}

int nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    ENTERED(nvmlInitWithFlags);
    if (!opened.tv_sec) clock_gettime(CLOCK_MONOTONIC, &opened);
    for (int number = 0; number < stub_gpus; number++)
        snprintf(gpus[number].uuid, sizeof gpus[number].uuid, "GPU-5afe0000-0000-4000-8000-%012d", number);
    return OK;
}

int nvmlShutdown(void) { ENTERED(nvmlShutdown); return OK; }

const char *nvmlErrorString(int code) { (void)code; return "an error"; }

int nvmlSystemGetDriverVersion(char *text, unsigned size) {
    ENTERED(nvmlSystemGetDriverVersion);
    snprintf(text, size, "580.65.06");
    return OK;
}

int nvmlDeviceGetCount_v2(unsigned *count) { ENTERED(nvmlDeviceGetCount_v2); *count = stub_gpus; return OK; }

int nvmlDeviceGetHandleByIndex_v2(unsigned index, gpu **handle) {
    ENTERED(nvmlDeviceGetHandleByIndex_v2);
    if (index >= (unsigned)stub_gpus) return NOT_FOUND;
    *handle = &gpus[index];
    return OK;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, gpu **handle) {
    ENTERED(nvmlDeviceGetHandleByUUID);
    for (int number = 0; number < stub_gpus; number++)
        if (!strcmp(gpus[number].uuid, uuid)) { *handle = &gpus[number]; return OK; }
    return NOT_FOUND;
}

int nvmlDeviceGetUUID(gpu *of, char *text, unsigned size) {
    ENTERED(nvmlDeviceGetUUID);
    snprintf(text, size, "%s", of->uuid);
    return OK;
}

int nvmlDeviceGetName(gpu *of, char *text, unsigned size) {
    (void)of;
    ENTERED(nvmlDeviceGetName);
    snprintf(text, size, "NVIDIA H100 80GB HBM3");
    return OK;
}

int nvmlDeviceGetMemoryInfo_v2(gpu *of, memory_v2 *out) {
    (void)of;
    ENTERED(nvmlDeviceGetMemoryInfo_v2);
    *out = (memory_v2){out->version, 85899345920, 1000000000, 1073741824, 80000000000};
    return OK;
}

int nvmlDeviceGetTemperatureV(gpu *of, temperature_v1 *out) {
    (void)of; ENTERED(nvmlDeviceGetTemperatureV); out->celsius = 58; return OK;
}

int nvmlDeviceGetMarginTemperature(gpu *of, margin_v1 *out) {
    (void)of; ENTERED(nvmlDeviceGetMarginTemperature); out->celsius = 29; return OK;
}

int nvmlDeviceGetUtilizationRates(gpu *of, unsigned out[2]) {
    (void)of; ENTERED(nvmlDeviceGetUtilizationRates); out[0] = 98; out[1] = 61; return OK;
}

int nvmlDeviceGetClockInfo(gpu *of, unsigned kind, unsigned *out) {
    (void)of; (void)kind; ENTERED(nvmlDeviceGetClockInfo); *out = 1755; return OK;
}

#define ANSWERS(name, type, number) \
    int name(gpu *of, type *out) { (void)of; ENTERED(name); *out = number; return OK; }
#define ANSWERS_TWO(name, first, second) \
    int name(gpu *of, unsigned *one, unsigned *two) { \
        (void)of; ENTERED(name); *one = first; *two = second; return OK; }

ANSWERS(nvmlDeviceGetEnforcedPowerLimit, unsigned, 700000)
ANSWERS(nvmlDeviceGetPerformanceState, unsigned, 0)
ANSWERS(nvmlDeviceGetCurrPcieLinkGeneration, unsigned, 5)
ANSWERS(nvmlDeviceGetMaxPcieLinkGeneration, unsigned, 5)
ANSWERS(nvmlDeviceGetCurrPcieLinkWidth, unsigned, 16)
ANSWERS(nvmlDeviceGetMaxPcieLinkWidth, unsigned, 16)
ANSWERS(nvmlDeviceGetCurrentClocksEventReasons, uint64_t, 4)
ANSWERS(nvmlDeviceGetSupportedEventTypes, uint64_t, 0xB)
ANSWERS_TWO(nvmlDeviceGetMigMode, 0, 0)
ANSWERS_TWO(nvmlDeviceGetEncoderUtilization, 0, 100000)
ANSWERS_TWO(nvmlDeviceGetDecoderUtilization, 0, 100000)

/* The amount of a field, or how much it grows in a second; false for one that these GPUs do not have. */
static int field(unsigned id, uint64_t *amount, double *per_s) {
    *amount = 0;
    *per_s = 0;
    switch (id) {
    case 3: case 4: case 38: case 45: case 52: case 59: case 75: case 77: case 79: case 94:
    case 142: case 143: case 144: case 145: case 230: case 269: case 270: case 271: return 1;
    case 82: *amount = 61; return 1;
    case 185: *amount = 650000; return 1;
    case 186: *amount = 655000; return 1;
    case 74: *per_s = 10e6; return 1;
    case 83: *per_s = 650e3; return 1;
    case 138: case 139: *per_s = 50e6; return 1;
    default: return 0;
    }
}

int nvmlDeviceGetFieldValues(gpu *of, int count, field_value *values) {
    double at_s = counted_s(), per_s;
    (void)of;
    ENTERED(nvmlDeviceGetFieldValues);
    for (field_value *each = values; each < values + count; each++) {
        uint64_t amount;
        if (!field(each->id, &amount, &per_s)) { each->code = NOT_SUPPORTED; continue; }
        each->type = UNSIGNED_LONG_LONG;
        each->code = OK;
        each->value = amount + (uint64_t)(at_s * per_s);
    }
    return OK;
}

int nvmlGpmQueryDeviceSupport(gpu *of, gpm_support *out) {
    (void)of; ENTERED(nvmlGpmQueryDeviceSupport); out->supported = 1; return OK;
}

int nvmlGpmSampleAlloc(void **sample) {
    ENTERED(nvmlGpmSampleAlloc);
    *sample = &samples[samples_made++ % SAMPLES_MAX];
    return OK;
}

int nvmlGpmSampleFree(void *sample) { (void)sample; ENTERED(nvmlGpmSampleFree); return OK; }

int nvmlGpmSampleGet(gpu *of, void *sample) { (void)of; (void)sample; ENTERED(nvmlGpmSampleGet); return OK; }

int nvmlGpmMetricsGet(gpm_request *request) {
    ENTERED(nvmlGpmMetricsGet);
    for (gpm_metric *each = request->metrics; each < request->metrics + request->count; each++) {
        each->code = OK;
        switch (each->id) {
        case 2: each->value = 83.5; break;
        case 3: each->value = 41.0; break;
        case 5: each->value = 37.25; break;
        case 10: each->value = 64.0; break;
        case 20: case 21: each->value = 1907.0; break;
        default: each->code = NOT_SUPPORTED; each->value = 0;
        }
    }
    return OK;
}

int nvmlEventSetCreate(void **set) { ENTERED(nvmlEventSetCreate); *set = &events; return OK; }

int nvmlEventSetFree(void *set) { (void)set; ENTERED(nvmlEventSetFree); return OK; }

int nvmlDeviceRegisterEvents(gpu *of, uint64_t types, void *set) {
    (void)of; (void)types; (void)set; ENTERED(nvmlDeviceRegisterEvents); return OK;
}

/* Nothing ever happens. */
int nvmlEventSetWait_v2(void *set, void *event, unsigned timeout_ms) {
    struct timespec whole = {timeout_ms / 1000, timeout_ms % 1000 * 1000000L};
    (void)set; (void)event;
    ENTERED(nvmlEventSetWait_v2);
    nanosleep(&whole, 0);
    return TIMEOUT;
}

int nvmlDeviceGetComputeRunningProcesses_v3(gpu *of, unsigned *count, process *out) {
    unsigned room = *count;
    (void)of;
    ENTERED(nvmlDeviceGetComputeRunningProcesses_v3);
    *count = 1;
    if (!out || !room) return INSUFFICIENT_SIZE;
    out->pid = 1;
    out->used = 70ULL << 30;
    return OK;
}

int nvmlDeviceGetMPSComputeRunningProcesses_v3(gpu *of, unsigned *count, process *out) {
    (void)of; (void)count; (void)out; ENTERED(nvmlDeviceGetMPSComputeRunningProcesses_v3); return NOT_SUPPORTED;
}

int nvmlDeviceGetProcessUtilization(gpu *of, process_sample *out, unsigned *count, uint64_t since) {
    unsigned room = *count;
    (void)of; (void)since;
    ENTERED(nvmlDeviceGetProcessUtilization);
    *count = 1;
    if (!out || !room) return INSUFFICIENT_SIZE;
    out->pid = 1;
    out->at = 1;
    out->sm = 83;
    return OK;
}
