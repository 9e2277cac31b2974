/* Stands in for NVIDIA's management library: as many GPUs, links and modes as the environment says. */
#include <stdlib.h>
#include <string.h>

static int number(const char *name, int otherwise) {
    const char *text = getenv(name);
    return text ? atoi(text) : otherwise;
}

typedef struct { unsigned version; unsigned char cluster[16]; unsigned status; unsigned clique; unsigned char state; unsigned health; } fabric;
typedef struct { unsigned environment, feature, tools; } confidential;

int nvmlInitWithFlags(unsigned flags) { return number("STAND_IN_INIT", 0); }
int nvmlShutdown(void) { return 0; }
const char *nvmlErrorString(int code) { return "stand-in"; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = number("STAND_IN_GPUS", 2); return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) { *device = (void *)(long)(index + 1); return 0; }
int nvmlDeviceGetHandleByUUID(const char *name, void **device) { *device = (void *)1L; return strcmp(name, "GPU-first") ? 6 : 0; }
int nvmlDeviceGetName(void *device, char *name, unsigned length) { strncpy(name, "NVIDIA H200", length); return 0; }
int nvmlDeviceGetCudaComputeCapability(void *device, int *major, int *minor) { *major = number("STAND_IN_MAJOR", 9); *minor = 0; return 0; }
int nvmlDeviceGetMigMode(void *device, unsigned *now, unsigned *later) { *now = *later = number("STAND_IN_MIG", 0); return 0; }
int nvmlDeviceGetP2PStatus(void *one, void *other, int kind, int *status) { *status = number(kind == 2 ? "STAND_IN_NVLINK" : "STAND_IN_READ", 0); return 0; }
int nvmlDeviceGetNvLinkState(void *device, unsigned link, int *active) { *active = 1; return 0; }
int nvmlDeviceGetNvLinkRemoteDeviceType(void *device, unsigned link, int *type) { *type = number("STAND_IN_REMOTE", 2); return 0; }
int nvmlDeviceGetGpuFabricInfoV(void *device, fabric *info) {
    info->state = number("STAND_IN_FABRIC", 0);
    info->cluster[0] = info->state == 3 && number("STAND_IN_CLUSTER", 1);
    return 0;
}
int nvmlSystemGetConfComputeState(confidential *state) { state->feature = number("STAND_IN_CONFIDENTIAL", 0); return 0; }
