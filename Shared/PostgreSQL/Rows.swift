// The rows that a command answered, read without implicit conversions.

import CPostgreSQL

/// An answer in memory. Like its session, one thread at a time may use it; it outlives the session.
public final class Rows: RandomAccessCollection {
  private let result: OpaquePointer
  private let command: String
  public let endIndex: Int
  public var startIndex: Int { 0 }
  /// The number of rows that the command inserted, updated, deleted or selected.
  public let changedCount: Int
  public var columnCount: Int32 { PQnfields(result) }
  /// The memory that the answer takes.
  public var byteCount: Int { PQresultMemorySize(result) }

  /// Takes over the result.
  init(_ result: OpaquePointer, of command: String) {
    self.result = result
    self.command = command
    endIndex = Int(PQntuples(result))
    changedCount = PQcmdTuples(result).flatMap { Int(String(cString: $0)) } ?? 0
  }

  deinit { PQclear(result) }

  /// - Precondition: an index of the collection.
  public subscript(position: Int) -> Row {
    precondition(position >= 0 && position < endIndex, "row \(position) of \(endIndex) rows of \(command)")
    return Row(rows: self, index: Int32(position))
  }

  /// Lends the bytes of a field; nil for NULL.
  /// - Throws: `invalidValue` when the column is missing or has none of the types.
  fileprivate func withField<Value>(
    _ row: Int32, _ column: Int32, _ types: ValueTypes,
    _ body: (ValueType, UnsafeRawBufferPointer) throws(PostgreSQLError) -> Value
  ) throws(PostgreSQLError) -> Value? {
    let number = column < PQnfields(result) ? PQftype(result, column) : 0
    guard let type = ValueType(rawValue: number), types.contains(ValueTypes(type)), PQfformat(result, column) == 1
    else {
      throw failure(column, "has the type \(number)")
    }
    if PQgetisnull(result, row, column) == 1 { return nil }
    let bytes = UnsafeRawBufferPointer(
      start: PQgetvalue(result, row, column), count: Int(PQgetlength(result, row, column)))
    return try body(type, bytes)
  }

  fileprivate func failure(_ column: Int32, _ reason: String) -> PostgreSQLError {
    PostgreSQLError(.invalidValue, command: command, message: "column \(column) \(reason)")
  }
}

/// One row. Columns count from 0.
///
/// A value of another type, and a NULL where none is expected, throw `invalidValue`.
public struct Row {
  fileprivate let rows: Rows
  fileprivate let index: Int32

  public func integer(_ column: Int32) throws(PostgreSQLError) -> Int64 {
    try present(column, optionalInteger(column))
  }
  public func real(_ column: Int32) throws(PostgreSQLError) -> Double { try present(column, optionalReal(column)) }
  public func boolean(_ column: Int32) throws(PostgreSQLError) -> Bool {
    try present(column, optionalBoolean(column))
  }
  public func text(_ column: Int32) throws(PostgreSQLError) -> String { try present(column, optionalText(column)) }
  public func bytes(_ column: Int32) throws(PostgreSQLError) -> [UInt8] { try present(column, optionalBytes(column)) }

  /// A `bigint`, `integer` or `smallint`.
  public func optionalInteger(_ column: Int32) throws(PostgreSQLError) -> Int64? {
    try rows.withField(index, column, [.bigint, .int, .smallint]) { type, bytes throws(PostgreSQLError) in
      switch (type, bytes.count) {
      case (.bigint, 8): Int64(bigEndian: bytes.loadUnaligned(as: Int64.self))
      case (.int, 4): Int64(Int32(bigEndian: bytes.loadUnaligned(as: Int32.self)))
      case (.smallint, 2): Int64(Int16(bigEndian: bytes.loadUnaligned(as: Int16.self)))
      default: throw rows.failure(column, "has \(bytes.count) bytes")
      }
    }
  }

  public func optionalReal(_ column: Int32) throws(PostgreSQLError) -> Double? {
    try rows.withField(index, column, [.real]) { _, bytes throws(PostgreSQLError) in
      guard bytes.count == 8 else { throw rows.failure(column, "has \(bytes.count) bytes") }
      return Double(bitPattern: UInt64(bigEndian: bytes.loadUnaligned(as: UInt64.self)))
    }
  }

  public func optionalBoolean(_ column: Int32) throws(PostgreSQLError) -> Bool? {
    try rows.withField(index, column, [.boolean]) { _, bytes throws(PostgreSQLError) in bytes.first == 1 }
  }

  /// A text. Bytes that are no UTF-8 are repaired; a server with the encoding UTF8 has none.
  public func optionalText(_ column: Int32) throws(PostgreSQLError) -> String? {
    try rows.withField(index, column, [.text, .varchar, .name]) { _, bytes throws(PostgreSQLError) in
      String(decoding: bytes, as: UTF8.self)
    }
  }

  /// A copy of a `bytea`.
  public func optionalBytes(_ column: Int32) throws(PostgreSQLError) -> [UInt8]? {
    try rows.withField(index, column, [.bytes]) { _, bytes throws(PostgreSQLError) in Array(bytes) }
  }

  /// The bytes of a `bytea` where the answer has them; nil for NULL. Invalid once nobody has the answer.
  public func unsafeOptionalBytes(_ column: Int32) throws(PostgreSQLError) -> UnsafeRawBufferPointer? {
    try rows.withField(index, column, [.bytes]) { _, bytes throws(PostgreSQLError) in bytes }
  }

  /// Lends the bytes of a `bytea`, or of a text's UTF-8. The pointer is invalid once `body` returns.
  public func withBytes<Value>(_ column: Int32, _ body: (UnsafeRawBufferPointer) -> Value) throws(PostgreSQLError)
    -> Value
  {
    try present(
      column,
      rows.withField(index, column, [.bytes, .text, .varchar, .name]) { _, bytes throws(PostgreSQLError) in
        body(bytes)
      })
  }

  public func isNull(_ column: Int32) -> Bool { rows.isNull(index, column) }

  private func present<Value>(_ column: Int32, _ value: Value?) throws(PostgreSQLError) -> Value {
    guard let value else { throw rows.failure(column, "is NULL") }
    return value
  }
}

/// Some types. A mask, because a `Set` would be made anew for each field that is read.
private struct ValueTypes: OptionSet {
  let rawValue: UInt16

  static let boolean = Self(.boolean)
  static let bytes = Self(.bytes)
  static let name = Self(.name)
  static let bigint = Self(.bigint)
  static let smallint = Self(.smallint)
  static let int = Self(.int)
  static let text = Self(.text)
  static let real = Self(.real)
  static let varchar = Self(.varchar)

  init(rawValue: UInt16) { self.rawValue = rawValue }

  init(_ type: ValueType) {
    rawValue =
      switch type {
      case .boolean: 1 << 0
      case .bytes: 1 << 1
      case .name: 1 << 2
      case .bigint: 1 << 3
      case .smallint: 1 << 4
      case .int: 1 << 5
      case .text: 1 << 6
      case .real: 1 << 7
      case .varchar: 1 << 8
      case .bytesArray, .textArray, .bigintArray: 1 << 15
      }
  }
}

extension Rows {
  fileprivate func isNull(_ row: Int32, _ column: Int32) -> Bool { PQgetisnull(result, row, column) == 1 }
}
