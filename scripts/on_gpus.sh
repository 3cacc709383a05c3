#!/usr/bin/env bash
# Builds Linkwise and runs its tests and benchmarks on a machine with GPUs, without any network.
# Needs Python ≥ 3.11 with nanobind, scikit-build-core, numpy, pyarrow, rich, typer, pytest and hypothesis, CMake, ninja,
# nvcc 13 and a C++ compiler.
#
# Usage: scripts/on_gpus.sh [build|test|memcheck|racecheck|bench] …   (default: build test bench)
# Results go to $OUT (default: build/on_gpus).
set -euo pipefail
cd "$(dirname "$0")/.."
OUT=${OUT:-build/on_gpus}
mkdir -p "$OUT"
export LINKWISE_CUDA_ARCHS=${LINKWISE_CUDA_ARCHS:-90} PYTHONUNBUFFERED=1
python=${PYTHON:-python3}

build() { "$python" -m pip install -q --no-build-isolation --no-deps --no-index .; }
test() { "$python" -m pytest tests -p no:cacheprovider 2>&1 | tee "$OUT/test.log"; }
# The sanitizers slow kernels down a hundredfold: the contract and primitives, and a few sorts.
sanitize() {
  compute-sanitizer --tool "$1" --error-exitcode 99 --kernel-name regex=linkwise --target-processes all \
    "$python" -m pytest tests -p no:cacheprovider -m gpu -k "$2" 2>&1 | tail -n 25 | tee "$OUT/$1.log"
}
memcheck() { compute-sanitizer --tool memcheck --error-exitcode 99 "$python" -m pytest tests -p no:cacheprovider -m gpu \
  -k "contract or primitives or chunksets or (kind and uint32) or (kind and float16) or (family and not collectives)" 2>&1 | tail -n 25 | tee "$OUT/memcheck.log"; }
racecheck() { sanitize racecheck "partition or checksum or histogram or (family and peer and kernels)"; }
bench() { "$python" benchmarks/sort.py ${SCALE:+--scale $SCALE} --output "$OUT/sort.json"; }

for step in ${@:-build test bench}; do
  echo "== $step"
  began=$SECONDS
  "$step"
  echo "== $step took $((SECONDS - began)) s"
done
