#!/usr/bin/env bash
# build.sh [--product] PROGRAM...: builds programs of this module, or of the product, into $BIN, which is bin/ unless it is set.
# The first build on a machine compiles Kubernetes' libraries, which takes minutes, so it says first what this machine lacks, and
# reports its progress every five seconds.
set -euo pipefail
cd "$(dirname "$0")"
here=$PWD
bin=${BIN:-bin}
[ "${bin#/}" != "$bin" ] || bin=$(cd .. && pwd)/$bin
mkdir -p "$bin"
packages=.
if [ "${1:-}" = --product ]; then
  shift
  cd ..
  packages=./cmd
fi

fail() {
  printf '%s\n' "$@" >&2
  exit 1
}
command -v go >/dev/null || fail 'There is no go on the PATH. Install Go: https://go.dev/dl'
# On Linux, fib_trie lists the addresses of this network namespace.
if [ -r /proc/net/fib_trie ] && ! grep -q ' 127\.0\.0\.1$' /proc/net/fib_trie; then
  fail 'This machine has no address 127.0.0.1, on which all programs of the tests and the demo listen. Add it: ip addr add 127.0.0.1/8 dev lo'
fi
# The caches of the compiler and of Go modules, and the programs, on a new machine.
for folder in "$(go env GOCACHE)" "$(go env GOMODCACHE)" "${TMPDIR:-/tmp}"; do
  mkdir -p "$folder" 2>/dev/null && [ -w "$folder" ] || fail "$folder cannot be written to: set GOCACHE, GOMODCACHE or TMPDIR to folders that can"
done
free=$(df -Pm "$(go env GOCACHE)" | awk 'NR == 2 { print $4 }')
if [ ! -d "$(go env GOCACHE)/00" ] && [ "$free" -lt 6000 ]; then
  fail "The first build needs 6 GB below $(go env GOCACHE), and $free MB are free: set GOCACHE to a folder on a larger disk"
fi

. "$here/compiler-env.sh"
for program; do
  total=$(go list -deps "$packages/$program" | wc -l)
  # With -v, go prints the path of each package that it compiles; lines with a blank or a colon are messages.
  go build -v -o "$bin/$program" "$packages/$program" 2>&1 | {
    next=$SECONDS compiled=0
    while IFS= read -r line; do
      case $line in
        'go: downloading '*) ;;
        *[[:space:]:]*) printf '%s\n' "$line" >&2 ;;
        *) compiled=$((compiled + 1)) ;;
      esac
      [ "$SECONDS" -ge "$next" ] || continue
      next=$((SECONDS + 5))
      printf 'building %s: %d of at most %d packages (%ds)\n' "$program" "$compiled" "$total" "$SECONDS" >&2
    done
  }
done
