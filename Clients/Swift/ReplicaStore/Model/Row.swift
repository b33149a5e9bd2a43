// Rows as generated code reads and writes them: values by column, without dictionaries between.

public import FoundationEssentials
import SQLite

/// A row as the store has it. Column 0 is the object's name; the entity's columns follow (`EntityDescription`):
/// attributes that are not transient, inherited ones first, then to-one relationships, inherited ones first.
public struct Row: ~Copyable {
  let statement: Statement
  /// Where contents of external attributes come from.
  package let contents: (any ContentProvider)?

  init(_ statement: Statement, contents: (any ContentProvider)?) {
    self.statement = statement
    self.contents = contents
  }

  public func value<Value: Storable>(_ column: Int) -> Value { Value.read(self, column) }

  public func isNull(_ column: Int) -> Bool { statement.isNull(Int32(column)) }
  public func integer(_ column: Int) -> Int64 { statement.int64(Int32(column)) }
  public func real(_ column: Int) -> Double { statement.double(Int32(column)) }
  public func text(_ column: Int) -> String { statement.text(Int32(column)) }
  public func data(_ column: Int) -> Data { statement.withBytes(Int32(column)) { Data($0) } }
  /// The record name in a column of names: of the object itself, or of a relationship's target.
  package func recordName(_ column: Int) -> String { RecordName.read(statement, Int32(column)) }
}

/// Takes the values of an object, by the columns of `Row`.
public struct RowWriter: ~Copyable {
  /// Of columns 1 and following; derived attributes stay null.
  package private(set) var values: [Literal]
  /// New contents of external attributes, by checksum.
  package private(set) var contents: [String: ContentSource] = [:]

  package init(columnCount: Int) { values = Array(repeating: .null, count: columnCount) }

  public mutating func value(_ column: Int, _ value: some Storable) { value.write(to: &self, column) }
  public mutating func literal(_ column: Int, _ literal: Literal) { values[column - 1] = literal }
  package mutating func content(_ checksum: String, _ source: ContentSource) { contents[checksum] = source }
}

/// New content of an external attribute.
package enum ContentSource: Sendable, Equatable {
  case data(Data)
  case file(path: String)
}

/// Finds contents of external attributes.
package protocol ContentProvider: Sendable {
  /// nil: the content is not on this device.
  func localPath(of content: ContentName) -> String?
  /// Fetches the content from the server if it is not here.
  /// - Returns: the path of the file.
  func fetchContent(_ content: ContentName) async throws(StoreError) -> String
}

/// A value that an attribute can have.
public protocol Storable: Sendable {
  var literal: Literal { get }
  static func read(_ row: borrowing Row, _ column: Int) -> Self
  func write(to row: inout RowWriter, _ column: Int)
}

extension Storable {
  public func write(to row: inout RowWriter, _ column: Int) { row.literal(column, literal) }
}
