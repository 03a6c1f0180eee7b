#!/usr/bin/env bash
# Builds programs of this module into bin/. The first build on a machine compiles Kubernetes' libraries, which takes minutes,
# so it reports its progress every five seconds.
set -euo pipefail
cd "$(dirname "$0")"
mkdir -p ../bin
for program; do
  # With -v, go prints the path of each package that it compiles; lines with a blank or a colon are messages.
  go build -v -o "../bin/$program" "./$program" 2>&1 | {
    next=$SECONDS packages=0
    while IFS= read -r line; do
      case $line in
        'go: downloading '*) ;;
        *[[:space:]:]*) printf '%s\n' "$line" >&2 ;;
        *) packages=$((packages + 1)) ;;
      esac
      [ "$SECONDS" -ge "$next" ] || continue
      next=$((SECONDS + 5))
      printf 'building %s: %d packages compiled (%ds)\n' "$program" "$packages" "$SECONDS" >&2
    done
  }
done
