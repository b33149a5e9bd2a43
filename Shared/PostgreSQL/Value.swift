// The values of parameters, each with its type.

/// The value of a parameter. Every case says its type, so that a NULL has one, too.
public enum Value: Hashable, Sendable {
  /// `bigint`
  case integer(Int64?)
  /// `double precision`
  case real(Double?)
  /// `boolean`
  case boolean(Bool?)
  /// `text`. PostgreSQL stores no NUL character in it: a session refuses such a value before it sends anything.
  case text(String?)
  /// `bytea`
  case bytes([UInt8]?)
  /// `bigint[]`, for commands about many rows
  case integers([Int64?])
  /// `text[]`
  case texts([String?])
  /// `bytea[]`
  case byteStrings([[UInt8]?])
}

/// The types of values that the module reads and writes, by their object identifiers in PostgreSQL's catalogue.
enum ValueType: UInt32 {
  case boolean = 16
  case bytes = 17
  case name = 19
  case bigint = 20
  case smallint = 21
  case int = 23
  case text = 25
  case real = 701
  case bytesArray = 1001
  case textArray = 1009
  case bigintArray = 1016
  case varchar = 1043
}

extension Value {
  var type: ValueType {
    switch self {
    case .integer: .bigint
    case .real: .real
    case .boolean: .boolean
    case .text: .text
    case .bytes: .bytes
    case .integers: .bigintArray
    case .texts: .textArray
    case .byteStrings: .bytesArray
    }
  }
}
