// The steps of an unpartitioned join on the CPU, for virtual devices.
#pragma once

#include "linkwise/primitives/kernels.hpp"

namespace linkwise {

/// See Kernels::fill_join_table and so on.
void fill_join_table_on_host(const RawJoinTable& table);
void check_join_table_on_host(const RawJoinTable& table);
void count_table_matches_on_host(const RawTableProbe& probe, MatchTotals* totals);
void write_table_matches_on_host(const RawTableProbe& probe, const RawTableRows& rows);

}  // namespace linkwise
