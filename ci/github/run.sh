#!/usr/bin/env bash
# Runs $SUITE with $ARGS and, where $SERVER is set, on that llama-server. Only exit 5, the machine's
# own failure, is tried once more, and only the runs that it struck.
set -uo pipefail

# an empty list counts as unset in the bash of macOS, hence the `+` below
read -r -a words <<< "${ARGS:-}"
if [ -n "${SERVER:-}" ]; then
    words+=(--server "$SERVER")
fi
benchsuite ci "$SUITE" ${words[@]+"${words[@]}"}
code=$?
if [ "$code" -eq 5 ]; then
    echo "the machine failed (exit 5); its runs are tried once more"
    if [ -n "${GITHUB_STEP_SUMMARY:-}" ]; then
        : > "$GITHUB_STEP_SUMMARY" # the second call writes the whole summary again
    fi
    benchsuite ci "$SUITE" ${words[@]+"${words[@]}"} --machine-failed
    code=$?
fi
if [ -n "${GITHUB_OUTPUT:-}" ]; then
    echo "exit-code=$code" >> "$GITHUB_OUTPUT"
    name=$(basename "$SUITE")
    comment=.benchsuite/ci/${name%.y*ml}/comment.md
    if [ -f "$comment" ] && [ "$code" -ne 2 ]; then
        echo "comment=$comment" >> "$GITHUB_OUTPUT"
    fi
fi
exit "$code"
