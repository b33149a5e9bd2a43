// The Swift types of attributes, and what the file has for each.

public import FoundationEssentials

extension Int16: Storable {
  public var literal: Literal { .integer(Int64(self)) }
  public static func read(_ row: borrowing Row, _ column: Int) -> Int16 { Int16(clamping: row.integer(column)) }
}

extension Int32: Storable {
  public var literal: Literal { .integer(Int64(self)) }
  public static func read(_ row: borrowing Row, _ column: Int) -> Int32 { Int32(clamping: row.integer(column)) }
}

extension Int64: Storable {
  public var literal: Literal { .integer(self) }
  public static func read(_ row: borrowing Row, _ column: Int) -> Int64 { row.integer(column) }
}

extension Bool: Storable {
  public var literal: Literal { .integer(self ? 1 : 0) }
  public static func read(_ row: borrowing Row, _ column: Int) -> Bool { row.integer(column) != 0 }
}

extension Double: Storable {
  public var literal: Literal { .real(self) }
  public static func read(_ row: borrowing Row, _ column: Int) -> Double { row.real(column) }
}

extension Float: Storable {
  public var literal: Literal { .real(Double(self)) }
  public static func read(_ row: borrowing Row, _ column: Int) -> Float { Float(row.real(column)) }
}

extension String: Storable {
  public var literal: Literal { .text(self) }
  public static func read(_ row: borrowing Row, _ column: Int) -> String { row.text(column) }
}

extension Data: Storable {
  public var literal: Literal { .data(self) }
  public static func read(_ row: borrowing Row, _ column: Int) -> Data { row.data(column) }
}

/// A date is stored in milliseconds; a fraction of one is rounded.
extension Date: Storable {
  public var literal: Literal { .integer(milliseconds) }
  public static func read(_ row: borrowing Row, _ column: Int) -> Date { Date(milliseconds: row.integer(column)) }

  /// Since 1970; dates that no calendar has are clamped.
  package var milliseconds: Int64 {
    Int64(exactly: (timeIntervalSince1970 * 1000).rounded()) ?? (self < Date(milliseconds: 0) ? .min : .max)
  }
  package init(milliseconds: Int64) { self.init(timeIntervalSince1970: Double(milliseconds) / 1000) }
}

extension UUID: Storable {
  public var literal: Literal { .text(uuidString) }
  /// A text that is no UUID, which only another client can have written, reads as zeros.
  public static func read(_ row: borrowing Row, _ column: Int) -> UUID {
    UUID(uuidString: row.text(column)) ?? UUID(uuid: (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0))
  }
}

extension URL: Storable {
  public var literal: Literal { .text(absoluteString) }
  /// A text that is no URL reads as an empty address.
  public static func read(_ row: borrowing Row, _ column: Int) -> URL {
    URL(string: row.text(column)) ?? URL(filePath: "/")
  }
}

extension Decimal: Storable {
  public var literal: Literal { .text(description) }
  public static func read(_ row: borrowing Row, _ column: Int) -> Decimal { Decimal(string: row.text(column)) ?? 0 }
}

extension Optional: Storable where Wrapped: Storable {
  public var literal: Literal { map(\.literal) ?? .null }
  public static func read(_ row: borrowing Row, _ column: Int) -> Wrapped? {
    row.isNull(column) ? nil : Wrapped.read(row, column)
  }
  public func write(to row: inout RowWriter, _ column: Int) {
    if let self { self.write(to: &row, column) } else { row.literal(column, .null) }
  }
}
