#!/usr/bin/env bash
# Fuzzes the native reader's walks under address and undefined-behaviour sanitizers, then keeps what is new.
# usage: fuzz/run.sh [SECONDS]    needs clang and its sanitizer runtime (Debian: clang libclang-rt-14-dev)
set -euo pipefail
cd "$(dirname "$0")"
seconds=${1:-600}
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
clang -g -O1 -Wall -Wextra -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all fuzz_xspace.c -o "$build/fuzz"
mkdir -p corpus "$build/grown" "$build/kept"
cp corpus/* "$build/grown/" 2>/dev/null || true
"$build/fuzz" -max_total_time="$seconds" -max_len=2048 -timeout=5 -print_final_stats=1 -verbosity=0 \
    -artifact_prefix=crash- "$build/grown"
"$build/fuzz" -set_cover_merge=1 -max_len=2048 -verbosity=0 "$build/kept" "$build/grown"
rm -f corpus/*
cp "$build"/kept/* corpus/
echo "$(ls corpus | wc -l) inputs kept, $(du -sb corpus | cut -f1) bytes"
