// Runs a fuzz target by itself: with libFuzzer where that is linked, otherwise on inputs that are drawn from its seeds,
// always the same.
//
//   clang++ -fsanitize=fuzzer,address,undefined -DWITH_LIBFUZZER …   # for hours
//   g++ -fsanitize=address,undefined …                               # what CI runs
#pragma once

#include <cstdint>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

/// Inputs that are near to what parsers take.
std::vector<std::string> seeds();

#ifndef WITH_LIBFUZZER
int main() {
  constexpr int rounds = 20000;
  std::mt19937_64 random(1);
  const std::vector<std::string> all = seeds();
  for (int round = 0; round < rounds; ++round) {
    std::string input = all[random() % all.size()];
    for (std::uint64_t changes = random() % 8; changes > 0; --changes) {
      const std::size_t at = random() % (input.size() + 1);
      const std::string& other = all[random() % all.size()];
      switch (random() % 4) {
        case 0: input.insert(at, 1, static_cast<char>(random())); break;
        case 1: input.erase(at, random() % 9); break;
        case 2: input.insert(at, other.substr(random() % (other.size() + 1), random() % 99)); break;
        default:
          if (at < input.size()) input[at] = static_cast<char>(random());
      }
    }
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
  }
  std::puts("0 failures");
}
#endif
