// The one order of record names, which stores, pages and ties in query results keep.

/// Sorts canonical upper-case UUIDs after all other names, and by UTF-8 bytes within each kind. The stored forms have
/// this order (SQLite sorts every text before every blob), so the store walks an index without a merge.
public enum RecordNameOrder {
  public static func precedes(_ a: String, _ b: String) -> Bool {
    let (isUUIDA, isUUIDB) = (isUUID(a), isUUID(b))
    return isUUIDA == isUUIDB ? a.utf8.lexicographicallyPrecedes(b.utf8) : isUUIDB
  }

  static func isUUID(_ name: String) -> Bool {
    guard name.utf8.count == 36 else { return false }
    for (position, byte) in name.utf8.enumerated() {
      let isDash = position == 8 || position == 13 || position == 18 || position == 23
      switch byte {
      case UInt8(ascii: "-") where isDash: continue
      case UInt8(ascii: "0")...UInt8(ascii: "9") where !isDash, UInt8(ascii: "A")...UInt8(ascii: "F") where !isDash:
        continue
      default: return false
      }
    }
    return true
  }
}
