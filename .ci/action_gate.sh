#!/usr/bin/env bash
# What the GitHub Action runs between installing and commenting: compare two files, gate the report, draw the page.
# Its exit code is always 0; the verdict goes to GITHUB_OUTPUT as exit_code, so that the comment is written either way.
set -uo pipefail
run() { "${PYTHON:-python}" -m hf_pct "$@"; }
finish() {
  echo "exit_code=$1" >> "$GITHUB_OUTPUT"
  exit 0
}

read -r -a options <<< "${COMPARE_OPTIONS:-}"
run compare "$OLD" "$NEW" --output_dir "$OUTPUT_DIR" --overwrite "${options[@]}"
code=$?
if [ "$code" -ne 0 ]; then
  mkdir -p "$OUTPUT_DIR"
  echo "**hf-pct:** the two files could not be compared (exit code $code); the log of this job says why." > "$OUTPUT_DIR/gate.md"
  finish "$code"
fi
report="$OUTPUT_DIR/flip_report.json"
run gate "$report" --config "$CONFIG" --markdown "$OUTPUT_DIR/gate.md" --junit "$OUTPUT_DIR/gate.xml" --overwrite
code=$?
run page "$report" --gate "$CONFIG" -o "$OUTPUT_DIR/update.html" --overwrite || echo "The page could not be drawn; the verdict stands."
if [ -f "$OUTPUT_DIR/gate.md" ] && [ -n "${GITHUB_STEP_SUMMARY:-}" ]; then
  cat "$OUTPUT_DIR/gate.md" >> "$GITHUB_STEP_SUMMARY"
fi
finish "$code"
