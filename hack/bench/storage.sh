#!/bin/bash
# storage.sh [BENCHTIME]: the library's benchmarks of storages (lists of 10 000 objects, writes beside watches and
# lists) on the object log and, in the same run, on etcd, both under the library's cacher; prints the ratios. A ratio
# above 1 means that the log is faster. BENCHTIME is 500ms without an argument. TEST_ETCD says where an etcd is that
# hack/cluster/build.sh has not built.
set -euo pipefail
cd "$(dirname "$0")/../.."
out=$(mktemp)
trap 'rm -f "$out"' EXIT
go test -run '^$' -bench 'StoreList|WriteThroughput|Get|Memory' -benchtime "${1:-500ms}" ./internal/apiserver/objectlog >"$out" 2>&1 ||
  { cat "$out" >&2; echo "storage.sh: the benchmarks failed" >&2; exit 1; }
grep -q 'backend=etcd3' "$out" || echo "storage.sh: there is no etcd to compare with: hack/cluster/build.sh etcd builds it" >&2
awk '
  # What a line measures: writes in a second where it counts them, else the time of one operation.
  function figure(   i) {
    for (i = 5; i < NF; i += 2) if ($(i + 1) == "writes/s") { unit = "writes/s"; return $i }
    unit = "us/op"
    return $3 / 1000
  }
  /^Benchmark.* ns\/op/ {
    name = $1
    sub(/^Benchmark/, "", name); sub(/-[0-9]+$/, "", name)
    if ($1 ~ /^BenchmarkMemory/) { memory = memory sprintf("%-100s %11s B/object\n", name, $5); next }
    backend = name ~ /backend=log/ ? "log" : "etcd3"
    sub(/\/backend=[a-z0-9]+/, "", name)
    value[name, backend] = figure()
    if (!(name in known)) { known[name] = unit; order[++count] = name }
  }
  END {
    printf "%-100s %11s %11s %-8s %6s\n", "benchmark", "log", "etcd3", "", "ratio"
    for (i = 1; i <= count; i++) {
      name = order[i]; a = value[name, "log"]; b = value[name, "etcd3"]
      ratio = "-"
      if (a > 0 && b > 0) {
        r = known[name] == "writes/s" ? a / b : b / a
        ratio = sprintf("%.2f", r); sum += log(r); n++
        if (!low || r < low) { low = r; lowest = name }
      }
      printf "%-100s %11.1f %11.1f %-8s %6s\n", name, a, b, known[name], ratio
    }
    printf "%s", memory
    if (n) printf "geometric mean of %d ratios: %.2f; lowest %.2f: %s\n", n, exp(sum / n), low, lowest
  }' "$out"
