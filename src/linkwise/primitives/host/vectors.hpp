// Loops that the compiler vectorises.
#pragma once

// The widest version for the CPU's vectors is chosen at load time.
#define LINKWISE_VECTORS [[gnu::target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")]]
