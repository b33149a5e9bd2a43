// Decimal attributes travel through a DOUBLE field (semantics 2.3); this is the text on the object side.

/// Decimal numbers as text.
public enum DecimalText {
  /// The nearest double; nil unless `text` is `[+-]digits[.digits][e[+-]digits]` and finite.
  public static func double(_ text: String) -> Double? {
    var rest = text.utf8[...]
    if let sign = rest.first, sign == UInt8(ascii: "-") || sign == UInt8(ascii: "+") { rest = rest.dropFirst() }
    guard takeDigits(&rest) else { return nil }
    if rest.first == UInt8(ascii: ".") {
      rest = rest.dropFirst()
      guard takeDigits(&rest) else { return nil }
    }
    if let mark = rest.first, mark == UInt8(ascii: "e") || mark == UInt8(ascii: "E") {
      rest = rest.dropFirst()
      if let sign = rest.first, sign == UInt8(ascii: "-") || sign == UInt8(ascii: "+") { rest = rest.dropFirst() }
      guard takeDigits(&rest) else { return nil }
    }
    guard rest.isEmpty, let value = Double(text), value.isFinite else { return nil }
    return value
  }

  private static func takeDigits(_ text: inout Substring.UTF8View) -> Bool {
    let rest = text.drop { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
    defer { text = rest }
    return rest.startIndex > text.startIndex
  }

  /// The shortest digits that read back as the same double, without an exponent and without a trailing `.0`.
  /// - Precondition: `value` is finite.
  public static func text(_ value: Double) -> String {
    precondition(value.isFinite, "a field's double is finite")
    if value == 0 { return "0" }
    let description = value.magnitude.description
    let parts = description.split(separator: "e", maxSplits: 1)
    let exponent = parts.count == 2 ? Int(parts[1]) ?? 0 : 0
    let mantissa = parts[0].split(separator: ".", maxSplits: 1)
    let whole = String(mantissa[0])
    let fraction = mantissa.count == 2 && mantissa[1] != "0" ? String(mantissa[1]) : ""
    let digits = whole + fraction
    let point = whole.utf8.count + exponent
    var text = value < 0 ? "-" : ""
    if point <= 0 {
      text += "0." + String(repeating: "0", count: -point) + digits
    } else if point >= digits.utf8.count {
      text += digits + String(repeating: "0", count: point - digits.utf8.count)
    } else {
      text += digits.prefix(point) + "." + digits.dropFirst(point)
    }
    return text
  }
}

/// UUIDs as text.
public enum UUIDText {
  /// The canonical upper-case form; nil unless `text` is 8-4-4-4-12 hexadecimal digits.
  public static func canonical(_ text: String) -> String? {
    let bytes = text.utf8
    guard bytes.count == 36 else { return nil }
    var upper: [UInt8] = []
    upper.reserveCapacity(36)
    for (index, byte) in bytes.enumerated() {
      switch (index, byte) {
      case (8, UInt8(ascii: "-")), (13, UInt8(ascii: "-")), (18, UInt8(ascii: "-")), (23, UInt8(ascii: "-")): upper.append(byte)
      case (8, _), (13, _), (18, _), (23, _): return nil
      case (_, UInt8(ascii: "0")...UInt8(ascii: "9")), (_, UInt8(ascii: "A")...UInt8(ascii: "F")): upper.append(byte)
      case (_, UInt8(ascii: "a")...UInt8(ascii: "f")): upper.append(byte - 32)
      default: return nil
      }
    }
    return String(decoding: upper, as: UTF8.self)
  }
}
