#!/usr/bin/env bash
# Builds Linkwise and runs its tests and benchmarks on a machine with GPUs, without any network.
# Needs Python ≥ 3.11 with nanobind, scikit-build-core, numpy, pyarrow, rich, typer, pytest and hypothesis, CMake, ninja,
# nvcc 13 and a C++ compiler.
#
# Usage: scripts/on_gpus.sh [build|test|memcheck|racecheck|bench|figures] …   (default: build test bench)
# Results go to $OUT (default: build/on_gpus). SCALE=0.01 runs a hundredth of the sizes.
#
# figures: the benchmarks for many GPUs, in one run of at most SECONDS_LEFT=580 seconds: the links, whether
# results are right on 1 … all GPUs, and then sorts, joins, plans, proactive transfers and Tartan's applications, all
# in figures.tar.gz. STEPS="sort plan" takes only these.
set -euo pipefail
cd "$(dirname "$0")/.."
OUT=${OUT:-build/on_gpus}
mkdir -p "$OUT"
export LINKWISE_CUDA_ARCHS=${LINKWISE_CUDA_ARCHS:-90} PYTHONUNBUFFERED=1
python=${PYTHON:-python3}

build() { "$python" -m pip install -q --no-build-isolation --no-deps --no-index .; }
test() { "$python" -m pytest tests -p no:cacheprovider 2>&1 | tee "$OUT/test.log"; }
# The sanitizers slow kernels down a hundredfold: run only the contract, the primitives and a few sorts.
sanitize() {
  compute-sanitizer --tool "$1" --error-exitcode 99 --kernel-name regex=linkwise --target-processes all \
    "$python" -m pytest tests -p no:cacheprovider -m gpu -k "$2" 2>&1 | tail -n 25 | tee "$OUT/$1.log"
}
memcheck() { compute-sanitizer --tool memcheck --error-exitcode 99 "$python" -m pytest tests -p no:cacheprovider -m gpu \
  -k "contract or primitives or chunksets or (kind and uint32) or (kind and float16) or (family and not collectives)" 2>&1 | tail -n 25 | tee "$OUT/memcheck.log"; }
racecheck() { sanitize racecheck "partition or checksum or histogram or (family and peer and kernels)"; }

# Runs a step: its name, its time limit in seconds, and its command, which is stopped at that limit or when all time
# is over. Output goes to build/figures, all of which is archived after each step.
within() {
  local name=$1 most=$2 left=$((until - SECONDS)) began=$SECONDS
  shift 2
  ((left > 15)) || { echo "-- $name: no time left" && return; }
  timeout $((most < left ? most : left)) "$@" >"build/figures/$name.log" 2>&1 || echo "-- $name: ended with $?"
  echo "-- $name took $((SECONDS - began)) s"
  tail -n "${LINES_TOLD:-30}" "build/figures/$name.log" | cut -c 1-200
  tar -czf "$OUT/figures.tar.gz" -C build figures
}
figures() {
  local until=$((SECONDS + ${SECONDS_LEFT:-580})) scale=${SCALE:-1} half step to=build/figures
  local cli=("$python" -m linkwise) counts
  mkdir -p "$to"
  half=$("$python" -c "print($scale / 2)")
  mapfile -t counts < <("$python" -c \
    'import linkwise; n = linkwise.local_machine().num_gpus; [print(g) for g in (1, 2, 4, 8) if g <= n]')
  export PYTHONPATH=$PWD/benchmarks:$PWD/tests${PYTHONPATH:+:$PYTHONPATH}
  for step in ${STEPS:-probe right sort device_joins join_a plan microbenchmark jacobi pagerank join_b sssp als xray_ct tartan}; do
    case $step in
      probe) within probe 60 "${cli[@]}" probe --output "$to/probe.json" ;;
      right) within right 90 "$python" -m pytest -q -x -p no:cacheprovider -m gpu --durations=5 \
        tests/test_device_join.py tests/test_device_sort.py tests/test_host_join.py tests/test_sort.py \
        -k "test_on_gpus or every_size_and_distribution_on_gpus or gpus_chunksets" ;;
      sort) within sort 200 "$python" benchmarks/sort.py --scale "$scale" --output "$to/sort.json" \
        --only "own choice" "out of core" "radix, streamed" "on the GPUs" ;;
      device_joins) within device_joins 90 "$python" benchmarks/device_joins.py --gpus "${counts[@]}" --scale "$scale" \
        --cases A B --output "$to/device_joins.json" ;;
      join_a) within join_a 120 "${cli[@]}" bench join --workload A --f "$scale" --output "$to/join_a.json" ;;
      join_b) within join_b 120 "${cli[@]}" bench join --workload B --f "$half" --only count --output "$to/join_b.json" ;;
      microbenchmark) within "$step" 100 "${cli[@]}" bench proactive --only "$step" --output "$to/$step.json" ;;
      jacobi | pagerank | sssp | als | xray_ct)
        within "$step" 100 "${cli[@]}" bench proactive --only "$step" --scaling --output "$to/$step.json" ;;
      plan) within plan 150 "${cli[@]}" bench plan --scale "$half" --output "$to/plan.json" ;;
      tartan) within tartan 90 "$python" benchmarks/tartan.py --via peer,nccl --seconds 70 --output "$to/tartan.json" ;;
      *) echo "there is no step $step" >&2 && return 2 ;;
    esac
  done
}

bench() { "$python" benchmarks/sort.py ${SCALE:+--scale $SCALE} --output "$OUT/sort.json"; }

if (($# == 0)); then set -- build test bench; fi
for step in "$@"; do
  echo "== $step"
  began=$SECONDS
  "$step"
  echo "== $step took $((SECONDS - began)) s"
done
