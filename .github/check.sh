#!/usr/bin/env bash
# What the action runs: check, diff as Markdown, SARIF, and one comment on the pull request that is updated each time.
# Inputs are variables: RUN, BASELINE, BUDGET, COMMENT, SARIF, PULL_REQUEST, REPOSITORY, GH_TOKEN.
set -uo pipefail
folder="${RUNNER_TEMP:-$(mktemp -d)}"
summary="$folder/tpuprof.md"
mark="<!-- tpuprof -->"

baseline=()
[ -n "${BASELINE:-}" ] && baseline=(--baseline "$BASELINE")
tpuprof check "$RUN" --budget "${BUDGET:-pull-request}" "${baseline[@]}" > "$folder/check.txt"
status=$?
cat "$folder/check.txt"

{
  echo "$mark"
  echo "## tpuprof"
  case $status in
    0) echo "The budget holds." ;;
    1) echo "**The budget does not hold.**" ;;
    *) echo "**The run could not be checked** (status $status; see the log)." ;;
  esac
  echo
  if [ -n "${BASELINE:-}" ]; then
    tpuprof diff "$BASELINE" "$RUN" --md || true
  else
    tpuprof report "$RUN" -o "$folder/report.md" --force && cat "$folder/report.md"
  fi
} > "$summary"
[ -n "${GITHUB_STEP_SUMMARY:-}" ] && cat "$summary" >> "$GITHUB_STEP_SUMMARY"
[ -n "${GITHUB_OUTPUT:-}" ] && echo "summary=$summary" >> "$GITHUB_OUTPUT"
[ -n "${SARIF:-}" ] && tpuprof report "$RUN" -o "$SARIF" --force

if [ "${COMMENT:-}" = "true" ] && [ -n "${PULL_REQUEST:-}" ]; then
  # GitHub takes comments of up to 65,536 characters.
  head -c 60000 "$summary" > "$folder/comment.md"
  place="repos/$REPOSITORY/issues/$PULL_REQUEST/comments"
  known=$(gh api --paginate "$place" --jq ".[] | select(.body | startswith(\"$mark\")) | .id" | head -n 1)
  if [ -n "$known" ]; then
    gh api --method PATCH "repos/$REPOSITORY/issues/comments/$known" -F "body=@$folder/comment.md" > /dev/null
  else
    gh api --method POST "$place" -F "body=@$folder/comment.md" > /dev/null
  fi || echo "::warning::tpuprof could not comment; it needs the permission pull-requests: write"
fi
exit $status
