#include "linkwise/sort/host_io.hpp"

#include "linkwise/primitives/host/key_codec.hpp"
#include "linkwise/primitives/matching.hpp"

namespace linkwise {

MemoryView HostIo::host_keys(std::uint64_t first, std::uint64_t count) const {
  return host_view(input_.keys, first * native_key_bytes(), count * native_key_bytes(), input_.keys_pageable);
}

void HostIo::copy_in(Stream stream, std::uint64_t first, const Records& records, const MemoryView& raw) const {
  if (records.count == 0) return;
  router_.copy(stream, is_narrow() ? raw : records.keys, host_keys(first, records.count));
  if (input_.values == nullptr) return;
  const std::uint64_t width = records.type.value_bytes();
  router_.copy(stream, records.values,
               host_view(input_.values, first * width, records.count * width, input_.values_pageable));
}

void HostIo::encode_rows(Stream stream, std::uint64_t first, const Records& records, const MemoryView& raw) const {
  if (!is_own_code(input_.key_type, options_.descending))
    encode(runtime_, stream, input_.key_type, options_.descending, is_narrow() ? raw : records.keys, records.keys);
  if (options_.as_joined) unify_floats(runtime_, stream, input_.key_type, records.keys);
  if (records.type.value != ValueWidth::none && input_.values == nullptr)
    iota(runtime_, stream, records.type.value, records.values, first);
}

MemoryView HostIo::decode_keys(Stream stream, const Records& records, const MemoryView& raw) const {
  if (is_own_code(input_.key_type, options_.descending)) return records.keys;
  const MemoryView& to = is_narrow() ? raw : records.keys;
  decode(runtime_, stream, input_.key_type, options_.descending, records.keys, to);
  return to;
}

void HostIo::decode_on_host(Stream stream, const MemoryView& codes, void* keys) const {
  if (is_own_code(input_.key_type, options_.descending)) return;
  const std::uint64_t count = codes.bytes / record_type().key_bytes();
  runtime_.enqueue(stream, {"decode",
                            {codes},
                            {host_view(keys, 0, count * native_key_bytes(), true)},
                            {"multiway_merge", count, static_cast<double>(native_key_bytes())},
                            [type = input_.key_type, descending = options_.descending, codes, keys, count](void*) {
                              linkwise::decode_on_host(type, descending, codes.data, keys, count);
                            }});
}

void HostIo::copy_out(Stream stream, std::uint64_t first, const Records& records, const MemoryView& keys,
                      std::uint64_t bytes_per_key, const HostOutputs& output) const {
  if (records.count == 0) return;
  if (output.keys != nullptr)
    router_.copy(stream, host_view(output.keys, first * bytes_per_key, keys.bytes, output.keys_pageable), keys);
  if (output.values == nullptr || records.type.value == ValueWidth::none) return;
  const std::uint64_t width = records.type.value_bytes();
  router_.copy(stream, host_view(output.values, first * width, records.values.bytes, output.values_pageable),
               records.values);
}

}  // namespace linkwise
