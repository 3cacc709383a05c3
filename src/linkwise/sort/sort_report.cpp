#include "linkwise/sort/sort_report.hpp"

namespace linkwise {

SortReport report_of(Runtime& runtime, const SortOptions& options) {
  SortReport report;
  report.timeline = runtime.timeline();
  report.phases = phase_times(report.timeline);
  for (const PhaseTime& phase : report.phases) report.seconds += phase.seconds;
  report.verified = options.verify;
  return report;
}

}  // namespace linkwise
