#include "linkwise/probe/families.hpp"

#include <algorithm>
#include <optional>

#include "linkwise/device/virtual/virtual_runtime.hpp"
#include "linkwise/error.hpp"
#include "linkwise/primitives/kernels.hpp"

namespace linkwise {

void FamilyContext::transfers(const std::string& what, const std::vector<Transfer>& pattern) {
  ProbeRow row{family, what, {}, 0, false, pattern.front().bytes, {}};
  try {
    row.measured = prober_.transfers(pattern);
  } catch (const OutOfMemoryError& error) {
    return cannot(what + ", " + std::to_string(row.bytes) + " bytes", error.what());
  }
  VirtualRuntime model(fitted, VirtualMode::estimate, 0, make_virtual_kernels());
  row.predicted_gb_per_s = Prober(model, 0).transfers(pattern).gb_per_s;
  rows.push_back(std::move(row));
}

void FamilyContext::smallest_copy(const std::string& what, Place from, Place to) {
  rows.push_back({family, what, prober_.smallest_copy(from, to), 0, false, 4, {}});
}

void FamilyContext::add(const std::string& what, std::uint64_t bytes, Measurement measured) {
  rows.push_back({family, what, measured, 0, false, bytes, {}});
}

void FamilyContext::cannot(const std::string& what, const std::string& why) {
  rows.push_back({family, what, {}, 0, false, 0, why});
}

namespace {

constexpr std::uint64_t least_bytes = 1 << 20;

// None on a virtual machine, or if it does not fit: each copy then allocates its own host memory.
std::optional<HostPool> pool_for(Runtime& runtime, std::uint64_t bytes) {
  if (runtime.simulated()) return std::nullopt;
  try {
    return std::optional<HostPool>(std::in_place, runtime, bytes);
  } catch (const OutOfMemoryError&) {
    return std::nullopt;
  }
}

std::vector<ProbeFamily> all_families() {
  std::vector<ProbeFamily> all = transfer_families();
  for (ProbeFamily& family : cuda_families()) {
    family.measure = [measure = std::move(family.measure)](FamilyContext& context) {
      if (context.runtime.simulated()) return context.cannot("all", "it needs GPUs; this machine is a described one");
      measure(context);
    };
    all.push_back(std::move(family));
  }
  return all;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> family_names() {
  std::vector<std::pair<std::string, std::string>> names;
  for (const ProbeFamily& family : all_families()) names.emplace_back(family.name, family.what);
  return names;
}

std::vector<ProbeRow> measure_families(Runtime& runtime, const Machine& fitted, const std::vector<std::string>& names,
                                       const FamilyOptions& asked) {
  if (asked.bytes < least_bytes || asked.largest < 4)
    throw UsageError("a family copies 1 MiB at least, and a curve goes to 4 bytes at least");
  FamilyOptions options = asked;
  options.bytes = asked.bytes / least_bytes * least_bytes;
  const std::optional<HostPool> pool = pool_for(runtime, options.pool_bytes);
  FamilyContext context(runtime, fitted, options, pool ? &*pool : nullptr);
  for (const ProbeFamily& family : all_families()) {
    if (std::ranges::find(names, family.name) == names.end()) continue;
    context.family = family.name;
    try {
      family.measure(context);
    } catch (const CorruptDataError&) {
      throw;
    } catch (const Cancelled&) {
      throw;
    } catch (const Error& error) {
      context.cannot("the rest", error.what());
    }
    runtime.trim();  // other families allocate outside of the runtime
  }
  return std::move(context.rows);
}

}  // namespace linkwise
