# Shared by the scripts: strict mode, the cache folder, and how a step announces itself.
# Source it first; it leaves the working directory at the root of the repository.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Holds the tools and clients the tests need. Deleting it costs time, never correctness.
export GARRET_CACHE="${GARRET_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/garret-dev}"

# Prints a heading, runs the command, prints how long it took. A failing command ends the script.
step() {
  local title=$1 start=$SECONDS status=0
  shift
  printf '\n=== %s\n    %s\n' "$title" "$*"
  "$@" || status=$?
  if ((status != 0)); then
    printf '=== FAILED: %s (exit %d, after %d s)\n' "$title" "$status" "$((SECONDS - start))" >&2
    exit "$status"
  fi
  printf '=== done: %s (%d s)\n' "$title" "$((SECONDS - start))"
}

die() {
  printf 'error: %s\n' "$1" >&2
  exit 1
}

has() { command -v "$1" >/dev/null 2>&1; }

# Runs a command that reaches the network, and once more if it fails.
retry() { "$@" || { printf 'trying once more: %s\n' "$*" >&2; sleep 5; "$@"; }; }

# Where cargo puts its output, whoever set it: the environment, a config file or nobody.
target_directory() {
  cargo metadata --format-version 1 --no-deps | python3 -c 'import json, sys; print(json.load(sys.stdin)["target_directory"])'
}
