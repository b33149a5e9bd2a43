// The text of Decimal attributes on the object side. They travel through a DOUBLE field and, where a model asks for it,
// exactly beside it (docs/protocol/mirroring.md#attribute-types).

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

  /// The canonical text of a decimal number that can be kept exactly: its digits, without an exponent and without
  /// superfluous zeros.
  ///
  /// It has the range of NSDecimalNumber: at most 38 significant digits times a power of ten from −128 to 127.
  /// - Returns: nil for text that is no such number.
  public static func exact(_ text: String) -> String? {
    guard double(text) != nil else { return nil }
    let isNegative = text.hasPrefix("-")
    let parts = text.drop { $0 == "-" || $0 == "+" }.split { $0 == "e" || $0 == "E" }
    let mantissa = parts[0].split(separator: ".", omittingEmptySubsequences: false)
    let fraction = mantissa.count == 2 ? mantissa[1] : ""
    guard var exponent = parts.count == 2 ? Int(parts[1]) : 0 else { return nil }
    var digits = (mantissa[0] + fraction).drop { $0 == "0" }
    if digits.isEmpty { return "0" }
    let (reduced, overflows) = exponent.subtractingReportingOverflow(fraction.utf8.count)
    if overflows { return nil }
    exponent = reduced
    while digits.last == "0" {
      digits.removeLast()
      exponent += 1
    }
    guard digits.utf8.count <= significantDigitLimit, exponentRange.contains(exponent) else { return nil }
    return (isNegative ? "-" : "") + plain(String(digits), point: digits.utf8.count + exponent)
  }

  private static let significantDigitLimit = 38
  private static let exponentRange = -128...127

  /// The digits with a decimal point after the first `point` of them.
  private static func plain(_ digits: String, point: Int) -> String {
    let count = digits.utf8.count
    if point <= 0 { return "0." + String(repeating: "0", count: -point) + digits }
    if point >= count { return digits + String(repeating: "0", count: point - count) }
    return digits.prefix(point) + "." + digits.dropFirst(point)
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
    return (value < 0 ? "-" : "") + plain(whole + fraction, point: whole.utf8.count + exponent)
  }
}

/// UUIDs as text.
public enum UUIDText {
  /// - Parameter bytes: 16 bytes.
  static func text(_ bytes: [UInt8]) -> String {
    let digits = Array("0123456789ABCDEF".utf8)
    var text: [UInt8] = []
    for (index, byte) in bytes.enumerated() {
      if [4, 6, 8, 10].contains(index) { text.append(UInt8(ascii: "-")) }
      text += [digits[Int(byte >> 4)], digits[Int(byte & 0x0f)]]
    }
    return String(decoding: text, as: UTF8.self)
  }

  /// The canonical upper-case form; nil unless `text` is 8-4-4-4-12 hexadecimal digits.
  public static func canonical(_ text: String) -> String? {
    let bytes = text.utf8
    guard bytes.count == 36 else { return nil }
    var (index, isUpper) = (0, true)
    for byte in bytes {
      switch byte {
      case UInt8(ascii: "-"): if !isHyphenPlace(index) { return nil }
      case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "A")...UInt8(ascii: "F"):
        if isHyphenPlace(index) { return nil }
      case UInt8(ascii: "a")...UInt8(ascii: "f"):
        if isHyphenPlace(index) { return nil }
        isUpper = false
      default: return nil
      }
      index += 1
    }
    // Nearly all UUIDs are in upper case and need no new string.
    return isUpper ? text : text.uppercased()
  }

  private static func isHyphenPlace(_ index: Int) -> Bool {
    index == 8 || index == 13 || index == 18 || index == 23
  }
}
