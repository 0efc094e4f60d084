// A PJRT plugin that hands every call on to the CPU plugin named by TPUPROF_CPU_PLUGIN, and answers one that this plugin
// leaves out: TorchTPU's torch.compile asks in which memory an executable's outputs are. A CPU has one memory.
#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "pjrt_c_api.h"

namespace {

constexpr char kMemory[] = "device";
const PJRT_Api* inner = nullptr;
PJRT_Api answered;

PJRT_Error* OutputMemoryKinds(PJRT_Executable_OutputMemoryKinds_Args* asked) {
  PJRT_Executable_NumOutputs_Args count{};
  count.struct_size = PJRT_Executable_NumOutputs_Args_STRUCT_SIZE;
  count.executable = asked->executable;
  if (PJRT_Error* error = inner->PJRT_Executable_NumOutputs(&count)) return error;
  // The caller keeps the pointers for as long as the executable lives; a few bytes for each stay until the process ends.
  auto* kinds = new std::vector<const char*>(count.num_outputs, kMemory);
  auto* sizes = new std::vector<size_t>(count.num_outputs, sizeof(kMemory) - 1);
  asked->num_outputs = count.num_outputs;
  asked->memory_kinds = kinds->data();
  asked->memory_kind_sizes = sizes->data();
  return nullptr;
}

const PJRT_Api* Load() {
  const char* path = std::getenv("TPUPROF_CPU_PLUGIN");
  void* library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : nullptr;
  void* entry = library ? dlsym(library, "GetPjrtApi") : nullptr;
  if (!entry) {
    std::fprintf(stderr, "no CPU plugin: %s\n", path ? dlerror() : "TPUPROF_CPU_PLUGIN is not set");
    std::abort();
  }
  return reinterpret_cast<const PJRT_Api* (*)()>(entry)();
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const PJRT_Api* GetPjrtApi() {
  if (!inner) {
    inner = Load();
    std::memset(&answered, 0, sizeof(answered));
    std::memcpy(&answered, inner, std::min(inner->struct_size, sizeof(answered)));
    answered.PJRT_Executable_OutputMemoryKinds = OutputMemoryKinds;
  }
  return &answered;
}
