import Records
import Testing

@testable import WebServices

@Suite struct `Operations on the records that they meet` {
  static let existing = RecordOperation.Existing(
    record: Record(
      recordName: "a", recordType: "Note", fields: ["kept": .int64(1), "old": .string("x")], created: Wire.stamp,
      modified: Wire.stamp, parent: "root"),
    sequence: 7)
  static let patch = RecordPatch(
    recordType: "Note",
    changes: [
      .init(name: "new", field: Field(.int64(2)), isDeclared: true), .init(name: "old", field: nil, isDeclared: true),
    ])

  static func operation(_ kind: RecordOperation.Kind, tag: Int64?) -> RecordOperation {
    RecordOperation(
      kind: kind, recordName: "a", recordChangeTag: tag.map { RecordChangeTag(sequence: $0) }, patch: .success(patch))
  }

  static func inserted() -> OperationDecision {
    .save(
      Record(recordName: "a", recordType: "Note", fields: ["new": .int64(2)], created: Wire.later, modified: Wire.later)
    )
  }
  static func merged() -> OperationDecision {
    .save(
      Record(
        recordName: "a", recordType: "Note", fields: ["kept": .int64(1), "new": .int64(2)], created: Wire.stamp,
        modified: Wire.later, parent: "root"))
  }
  static func replaced() -> OperationDecision {
    .save(
      Record(recordName: "a", recordType: "Note", fields: ["new": .int64(2)], created: Wire.stamp, modified: Wire.later)
    )
  }
  static let oplock = RecordError(.conflict, "client oplock error updating record")
  static let otherTag = RecordError(.conflict, "record to update already exists with a different change tag")
  static let missing = RecordError(.notFound, "Record not found")

  typealias Row = (
    kind: RecordOperation.Kind, exists: Bool, tag: Int64?, expected: Result<OperationDecision, RecordError>
  )
  /// The table of docs/protocol/record-plane.md#records-modify: every kind meeting a record and none, with the right, a
  /// wrong and no tag.
  static let table: [Row] = [
    (.create, true, nil, .failure(RecordError(.conflict, "record to insert already exists"))),
    (.create, true, 7, .failure(RecordError(.conflict, "record to insert already exists"))),
    (.create, false, nil, .success(inserted())),
    (.update, true, 7, .success(merged())),
    (.update, true, 6, .failure(oplock)),
    (.update, true, nil, .failure(otherTag)),
    (.update, false, 7, .failure(missing)),
    (.forceUpdate, true, nil, .success(merged())),
    (.forceUpdate, true, 6, .success(merged())),
    (.forceUpdate, false, nil, .success(inserted())),
    (.replace, true, 7, .success(replaced())),
    (.replace, true, 6, .failure(oplock)),
    (.replace, true, nil, .failure(otherTag)),
    (.replace, false, 7, .failure(missing)),
    (.forceReplace, true, nil, .success(replaced())),
    (.forceReplace, true, 6, .success(replaced())),
    (.forceReplace, false, nil, .success(inserted())),
    (.delete, true, 7, .success(.delete)),
    (.delete, true, 6, .failure(oplock)),
    (.delete, true, nil, .failure(otherTag)),
    (.delete, false, 7, .failure(missing)),
    (.forceDelete, true, nil, .success(.delete)),
    (.forceDelete, true, 6, .success(.delete)),
    (.forceDelete, false, nil, .success(.nothing)),
  ]

  @Test(arguments: table)
  func `the table of operation types holds`(row: Row) {
    let decision = Result { () throws(RecordError) in
      try Self.operation(row.kind, tag: row.tag).decision(meeting: row.exists ? Self.existing : nil, stamp: Wire.later)
    }
    #expect(decision == row.expected)
  }

  @Test func `an operation that was refused when it was read stays refused`() {
    let refusal = RecordError(.badRequest, "Note.title: STRING must be a string")
    let operation = Self.operation(.forceUpdate, tag: nil).refused(refusal)
    #expect(throws: refusal) { try operation.decision(meeting: nil, stamp: Wire.later) }
  }

  @Test func `a record does not change its type`() {
    let operation = RecordOperation(
      kind: .forceUpdate, recordName: "a", patch: .success(RecordPatch(recordType: "Task")))
    #expect(throws: RecordError(.badRequest, "record 'a' is of type Note, not Task")) {
      try operation.decision(meeting: Self.existing, stamp: Wire.later)
    }
  }

  @Test func `a new record needs a type`() {
    let operation = RecordOperation(kind: .forceReplace, recordName: "a")
    #expect(throws: RecordError(.badRequest, "recordType is missing for the new record 'a'")) {
      try operation.decision(meeting: nil, stamp: Wire.later)
    }
  }

  @Test(arguments: [(999_996, true), (999_997, false)])
  func `T-L01 a record of 1 000 000 bytes passes, one byte more is refused`(textByteCount: Int, passes: Bool) {
    // The field's name counts four more bytes.
    let patch = RecordPatch(
      recordType: "Note",
      changes: [
        .init(name: "text", field: Field(.string(String(repeating: "x", count: textByteCount))), isDeclared: true)
      ])
    let result = Result { () throws(RecordError) in
      try RecordOperation(kind: .create, recordName: "a", patch: .success(patch)).decision(
        meeting: nil, stamp: Wire.later)
    }
    switch result {
    case .success: #expect(passes)
    case .failure(let error):
      #expect(!passes)
      #expect(error == RecordError(.quotaExceeded, "record 'a' has 1000001 bytes, the limit is 1000000"))
    }
  }
}
