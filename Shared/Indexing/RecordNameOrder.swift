// The one order of record names that stores, pages and ties of queries keep.

/// Names that are UUIDs in canonical upper case come after all others; among their own kind the UTF-8 bytes decide. It is the order of
/// the stored forms (a text sorts before every blob), so that an index is walked in it without a merge.
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
      case UInt8(ascii: "0")...UInt8(ascii: "9") where !isDash, UInt8(ascii: "A")...UInt8(ascii: "F") where !isDash: continue
      default: return false
      }
    }
    return true
  }
}
