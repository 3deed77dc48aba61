#!/usr/bin/env bash
# What the GitHub Action runs between installing and commenting: compare two files, gate the report, draw the page.
# Its exit code is always 0; the verdict goes to GITHUB_OUTPUT as exit_code, so that the comment is written either way.
set -uo pipefail
run() { "${PYTHON:-python}" -m hf_pct "$@"; }
finish() {
  if [ ! -f "$OUTPUT_DIR/gate.md" ]; then # nothing was judged, and a pull request should say so
    mkdir -p "$OUTPUT_DIR"
    echo "**hf-pct:** the two files could not be $2 (exit code $1); the log of this job says why." > "$OUTPUT_DIR/gate.md"
  fi
  if [ -n "${GITHUB_STEP_SUMMARY:-}" ]; then
    cat "$OUTPUT_DIR/gate.md" >> "$GITHUB_STEP_SUMMARY"
  fi
  echo "exit_code=$1" >> "$GITHUB_OUTPUT"
  exit 0
}

# A file as it is, or REVISION:PATH, the file as a revision of this repository has it, such as origin/main:answers.csv
side() {
  if [ ! -e "$1" ] && git cat-file -e "$1" 2>/dev/null; then
    copy="$(mktemp -d)/$(basename "${1#*:}")"
    git show "$1" > "$copy" && echo "$copy"
  else
    echo "$1"
  fi
}

old="$(side "$OLD")"
new="$(side "$NEW")"
rm -f "$OUTPUT_DIR"/{flip_report,score_report}.json "$OUTPUT_DIR/gate.md" # of an earlier run
read -r -a options <<< "${COMPARE_OPTIONS:-}"
run compare "$old" "$new" --output_dir "$OUTPUT_DIR" --overwrite "${options[@]}"
code=$?
if [ "$code" -ne 0 ]; then
  finish "$code" compared
fi
report="$OUTPUT_DIR/flip_report.json"
if [ ! -f "$report" ]; then # the files held scores
  report="$OUTPUT_DIR/score_report.json"
fi
echo "report=$report" >> "$GITHUB_OUTPUT"
run gate "$report" --config "$CONFIG" --markdown "$OUTPUT_DIR/gate.md" --junit "$OUTPUT_DIR/gate.xml" --overwrite
code=$?
run page "$report" --gate "$CONFIG" -o "$OUTPUT_DIR/update.html" --overwrite ||
  run page "$report" -o "$OUTPUT_DIR/update.html" --overwrite || echo "The page could not be drawn; the verdict stands."
finish "$code" judged
