// The words of the installation's verdict, which the answer to `status` has: all is well, or the findings.

/** `{isWell, sentence, findings: [{what, remedy}], notes}`, the gravest finding first. */
export function verdict(status) {
  const { isWell = false, summary = "", findings = [], notes = [] } = status.verdict ?? {};
  const first = findings[0]?.what ?? "The server is of an earlier release, which tells no verdict";
  return { isWell, sentence: isWell ? `${summary}.` : `${first}.`, findings, notes };
}

export const sum = (rows, key) => rows.reduce((total, row) => total + (row[key] ?? 0), 0);
