// Copies host columns to a GPU as codes, and back: the two ends of every sort of host data.
#pragma once

#include "linkwise/primitives/primitives.hpp"
#include "linkwise/sort/host_columns.hpp"
#include "linkwise/sort/sort_report.hpp"
#include "linkwise/transfer/router.hpp"

namespace linkwise {
class HostIo {
 public:
  HostIo(Runtime& runtime, Router& router, const HostColumns& input, const SortOptions& options)
      : runtime_(runtime), router_(router), input_(input), options_(options) {}

  [[nodiscard]] KeyType key_type() const { return input_.key_type; }
  [[nodiscard]] std::uint64_t rows() const { return input_.count; }
  [[nodiscard]] RecordType record_type() const { return {key_width(input_.key_type), input_.value_width}; }
  [[nodiscard]] std::uint64_t native_key_bytes() const {
    return static_cast<std::uint64_t>(native_bytes(input_.key_type));
  }
  /// Narrow keys cross the link in their native width and are widened on the GPU.
  [[nodiscard]] bool is_narrow() const { return native_key_bytes() < record_type().key_bytes(); }
  /// The router for copies between the host and the GPUs.
  [[nodiscard]] Router& router() const { return router_; }
  /// Keys [first, first + count) of the input, in host memory.
  [[nodiscard]] MemoryView host_keys(std::uint64_t first, std::uint64_t count) const;

  /// Copies rows [first, first + records.count) in, on `stream`. `raw` receives the native bytes of narrow keys.
  void copy_in(Stream stream, std::uint64_t first, const Records& records, const MemoryView& raw) const;
  /// Encodes the keys that `copy_in` copied, and generates the values if they are row numbers.
  void encode_rows(Stream stream, std::uint64_t first, const Records& records, const MemoryView& raw) const;

  /// Decodes keys to native ones, in place or, if they are narrow, into `raw`. Returns where the native keys are.
  MemoryView decode_keys(Stream stream, const Records& records, const MemoryView& raw) const;
  /// The same for the result of `sort`, in `primary` or `secondary`; narrow keys are decoded into the unused one.
  MemoryView decode_sorted(Stream stream, const Records& sorted, const Records& primary,
                           const Records& secondary) const {
    const MemoryView& idle = sorted.keys.data == primary.keys.data ? secondary.keys : primary.keys;
    return decode_keys(stream, sorted, idle.slice(0, sorted.count * native_key_bytes()));
  }
  /// Copies keys (decoded, or codes) and values to rows [first, …) of the output.
  void copy_out(Stream stream, std::uint64_t first, const Records& records, const MemoryView& keys,
                std::uint64_t bytes_per_key, const HostOutputs& output) const;

  /// Decodes merged codes into the output's keys, on the host's stream; in place unless keys are narrow.
  void decode_on_host(Stream stream, const MemoryView& codes, void* keys) const;

 private:
  Runtime& runtime_;
  Router& router_;
  const HostColumns& input_;
  const SortOptions& options_;
};

}  // namespace linkwise
