// The values of several fields as one short key, so that an index finds records that share all of them.

import Crypto
public import Records

/// The key of a record in an index of kind `unique`: SHA-256 of its values with their types and lengths, 32 bytes.
public enum UniqueKey {
  /// Joins field names in the index's key. No field name contains it.
  static let separator: Character = ","

  /// - Returns: 32 bytes; nil when a value is missing, or when its type cannot be compared here.
  public static func key(of record: Record, fields: [String]) -> [UInt8]? {
    var bytes: [UInt8] = []
    for name in fields {
      guard let value = record.fields[name]?.value, let encoded = encoded(value) else { return nil }
      bytes.append(value.type.rawValue)
      bytes += IndexKey.number64(UInt64(encoded.count), 0).dropFirst()
      bytes += encoded
    }
    return bytes.isEmpty ? nil : SHA256.hash(bytes)
  }

  /// Equal values have equal bytes; both zeros are equal.
  private static func encoded(_ value: FieldValue) -> [UInt8]? {
    switch value {
    case .int64(let number), .timestamp(let number): IndexKey.number64(UInt64(bitPattern: number), 0)
    case .double(let number): IndexKey.number64(IndexKey.ordered(number), 0)
    case .string(let text): Array(text.utf8)
    case .bytes, .reference, .location, .asset, .list: nil
    }
  }
}
