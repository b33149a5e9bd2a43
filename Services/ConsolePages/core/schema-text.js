// Reads the schema language for showing it: record types with fields, indexes and grants.

/** `[{name, fields: [{name, type, indexes: […], isSystem}], grants: ["READ TO _world"]}]`, in the text's order. */
export function recordTypes(text) {
  const types = [];
  for (const line of text.split("\n")) {
    const words = line.trim();
    const begin = /^RECORD TYPE\s+("?)([^"\s(]+)\1\s*\(/.exec(words);
    if (begin) {
      types.push({ name: begin[2], fields: [], grants: [] });
      continue;
    }
    const type = types.at(-1);
    if (!type) continue;
    const grant = /^GRANT\s+(.+?),?$/.exec(words);
    if (grant) {
      type.grants.push(grant[1].replaceAll('"', ""));
      continue;
    }
    const field = /^("?)([^"\s]+)\1\s+((?:ENCRYPTED\s+)?(?:LIST<[^>]+>|[A-Z0-9]+))\s*(.*?),?$/.exec(words);
    if (field) type.fields.push(fieldOf(field));
  }
  return types;
}

function fieldOf([, , name, type, rest]) {
  const indexes = ["QUERYABLE", "SEARCHABLE", "SORTABLE"].filter((word) => rest.includes(word));
  return {
    name,
    type: type.replace("ENCRYPTED ", ""),
    isEncrypted: type.startsWith("ENCRYPTED"),
    indexes,
    isSystem: name.startsWith("___"),
  };
}
