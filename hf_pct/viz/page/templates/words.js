/* Which words of two texts differ: the longest common run of words in order, everything else is changed. */
const MOST_WORDS = 600; // beyond that the comparison takes longer than a person waits

function wordsOf(text) {
  return text.split(/(\s+)/).filter((part) => part !== "");
}

/** Two lists of [text, changed], one per side. */
function changedWords(before, after) {
  const a = wordsOf(before), b = wordsOf(after);
  if (a.length > MOST_WORDS || b.length > MOST_WORDS) return [[[before, before !== after]], [[after, before !== after]]];
  const length = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      length[i][j] = a[i] === b[j] ? length[i + 1][j + 1] + 1 : Math.max(length[i + 1][j], length[i][j + 1]);
    }
  }
  const left = [], right = [];
  let i = 0, j = 0;
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) { left.push([a[i++], false]); right.push([b[j++], false]); }
    else if (j >= b.length || (i < a.length && length[i + 1][j] >= length[i][j + 1])) left.push([a[i++], true]);
    else right.push([b[j++], true]);
  }
  return [left, right];
}

/** The parts as text, with the changed words in <mark>. */
function marked(parts) {
  return parts.map(([text, changed]) => (changed && text.trim() ? make("mark", "", text) : document.createTextNode(text)));
}
