// The changes of an import batch, record by record (docs/protocol/mirror-api.md#changes).

public import Records

/// A record's change, expressed as a change of objects.
public enum ImportChange: Sendable {
  /// The object's present state; the record gives its name and stamps.
  case save(ObjectValues, Record)
  case delete(entity: String, objectID: String)
  case link(MirroredLink)
  case unlink(MirroredLink)
}

/// The result of importing one record.
public enum ImportOutcome: Sendable {
  case change(ImportChange)
  /// Nothing for this store: a type or entity its model doesn't know, a record that is none of mirroring's, or a link
  /// that another record still makes. It stays on the server (R2).
  case nothing
  /// Left out and reported; the others go on (R10).
  case problem(MirroringProblem)
}
