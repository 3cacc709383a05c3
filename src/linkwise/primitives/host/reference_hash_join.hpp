// The steps of a partitioned hash join on the CPU, for virtual devices: plain loops that serve as a reference for the
// CUDA kernels.
#pragma once

#include "linkwise/primitives/kernels.hpp"

namespace linkwise {

/// See Kernels::compare_samples and so on. `cursors`: scratch with a number for each part.
void compare_samples_on_host(const RawSamples& samples, SeenKeys* seen);
void count_digits_on_host(const RawHashPass& pass, std::uint64_t* counts);
void move_to_parts_on_host(const RawHashPass& pass, const std::uint64_t* begin, RawRecords to, std::uint64_t* cursors,
                           std::uint64_t* checksum);
void list_hash_tasks_on_host(const RawHashTasks& list);
void count_hash_matches_on_host(const RawHashMatch& match, const RawHashCount& count);
void write_hash_matches_on_host(const RawHashMatch& match, const RawHashRows& rows);
void take_hash_rest_on_host(const RawHashRest& rest);

}  // namespace linkwise
