// Models in Xcode's format, and schemas in CloudKit's.

import ObjectModel
import Records
import XCDataModel

extension FuzzTarget {
  /// An accepted model is indexed, validated and hashed; its schema is printed and read again as the same.
  static let model = FuzzTarget(name: "model") { bytes in
    let lineCount = bytes.count { $0 == UInt8(ascii: "\n") || $0 == UInt8(ascii: "\r") } + 1
    let check: (any Error) throws -> Void = { error in
      guard let error = error as? ModelReadingError else { throw Broken(description: "refused with \(error)") }
      try hold(!error.reason.isEmpty, "a refusal says nothing")
      try hold(
        error.line.map { (1...lineCount).contains($0) } ?? true,
        "a refusal points to line \(error.line ?? 0) of \(lineCount)")
    }
    if let name = try taken({ try ModelReader.currentVersion(fromPlist: bytes) }, orRefused: check) {
      try hold(!name.contains("/") && name != ".." && !name.isEmpty, "the version '\(name)' leaves its folder")
    }
    guard let model = try taken({ try ModelReader.read(bytes) }, orRefused: check) else { return }
    let index = ModelIndex(model)
    let problems = ModelValidator.problems(of: index)
    for problem in problems { try hold(!problem.message.isEmpty, "a problem says nothing") }
    try holdEqual(ModelIndex(model).modelHash, index.modelHash, "one model has two hashes")
    guard problems.isEmpty else { return }
    try checkText(of: SchemaGenerator.schema(for: index))
  }

  /// `.ckdb`: an accepted text is printed and read again as the same schema, and printed as the same text.
  static let schema = FuzzTarget(
    name: "schema",
    seeds: {
      [Fixture.schema, SchemaGenerator.schema(for: Fixture.model)].map { Array(SchemaPrinter.text(of: $0).utf8) }
    }
  ) { bytes in
    let text = String(decoding: bytes, as: UTF8.self)
    let lineCount = text.utf8.count { $0 == UInt8(ascii: "\n") } + 1
    let schema = try taken({ try SchemaParser.parse(text) }) { error in
      guard let error = error as? SchemaSyntaxError else { throw Broken(description: "refused with \(error)") }
      try hold(!error.reason.isEmpty, "a refusal says nothing")
      try hold(
        (1...lineCount).contains(error.line) && (1...text.utf8.count + 1).contains(error.column),
        "a refusal points to \(error.line):\(error.column)")
    }
    if let schema { try checkText(of: schema) }
  }

  private static func checkText(of schema: Schema) throws {
    let printed = SchemaPrinter.text(of: schema)
    guard
      let again = try taken(
        { try SchemaParser.parse(printed) },
        orRefused: { throw Broken(description: "refuses its own text: \($0)\n\(printed)") })
    else { return }
    try holdEqual(SchemaPrinter.text(of: again), printed, "a schema has two texts")
    let diff = SchemaDiff(from: schema, to: again)
    try hold(diff.isEmpty && SchemaDiff(from: again, to: schema).isEmpty, "a schema is read as another: \(diff)")
  }
}
