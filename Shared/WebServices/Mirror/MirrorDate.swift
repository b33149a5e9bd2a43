// Dates of the mirror API: RFC 3339 with milliseconds, without a calendar library.

/// Milliseconds since 1970 as text, such as `2026-11-20T07:33:24.123Z`.
public enum MirrorDate {
  private static let millisecondsPerDay: Int64 = 86_400_000

  /// Always in UTC, with three decimals. Years outside 0000…9999 are written with a sign and at least six digits.
  public static func text(_ milliseconds: Int64) -> String {
    let (days, rest) = floorDivision(milliseconds, millisecondsPerDay)
    let (year, month, day) = civil(days)
    var text: [UInt8] = []
    text.reserveCapacity(24)
    if (0...9999).contains(year) {
      append(year, width: 4, to: &text)
    } else {
      text.append(year < 0 ? UInt8(ascii: "-") : UInt8(ascii: "+"))
      append(Int64(year.magnitude), width: 6, to: &text)
    }
    for (separator, value) in [
      ("-", month), ("-", day), ("T", rest / 3_600_000), (":", rest / 60_000 % 60), (":", rest / 1000 % 60),
    ] {
      text.append(contentsOf: separator.utf8)
      append(value, width: 2, to: &text)
    }
    text.append(UInt8(ascii: "."))
    append(rest % 1000, width: 3, to: &text)
    text.append(UInt8(ascii: "Z"))
    return String(decoding: text, as: UTF8.self)
  }

  /// Reads a date with any offset and any number of decimals, rounded to the millisecond; nil for other text.
  public static func milliseconds(_ text: String) -> Int64? {
    var digits = Digits(text.utf8[...])
    guard let year = digits.year(), digits.take("-"), let month = digits.number(2), digits.take("-"),
      let day = digits.number(2),
      digits.take("T") || digits.take("t") || digits.take(" "),
      let hour = digits.number(2), digits.take(":"), let minute = digits.number(2), digits.take(":"),
      let second = digits.number(2),
      let fraction = digits.fraction(), let offset = digits.offset(), digits.rest.isEmpty,
      (1...12).contains(month), (1...daysInMonth(year, month)).contains(day), hour < 24, minute < 60, second < 60
    else { return nil }
    let seconds = (hour * 60 + minute - offset) * 60 + second
    // Milliseconds of years with nine digits exceed 64 bits.
    let (dayStart, overflows) = days(year, month, day).multipliedReportingOverflow(by: millisecondsPerDay)
    let (milliseconds, overflowsToo) = dayStart.addingReportingOverflow(seconds * 1000 + fraction)
    return overflows || overflowsToo ? nil : milliseconds
  }

  // MARK: The calendar

  /// Days from 1970 to a date of the proleptic Gregorian calendar. Its years begin in March, so that the leap day comes
  /// last.
  private static func days(_ year: Int64, _ month: Int64, _ day: Int64) -> Int64 {
    let shifted = month > 2 ? year : year - 1
    let (era, yearOfEra) = floorDivision(shifted, 400)
    let dayOfYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1
    return era * 146_097 + yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear - 719_468
  }

  private static func civil(_ days: Int64) -> (year: Int64, month: Int64, day: Int64) {
    let (era, dayOfEra) = floorDivision(days + 719_468, 146_097)
    let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
    let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
    let shiftedMonth = (5 * dayOfYear + 2) / 153
    let month = shiftedMonth < 10 ? shiftedMonth + 3 : shiftedMonth - 9
    return (era * 400 + yearOfEra + (month <= 2 ? 1 : 0), month, dayOfYear - (153 * shiftedMonth + 2) / 5 + 1)
  }

  private static func daysInMonth(_ year: Int64, _ month: Int64) -> Int64 {
    switch month {
    case 4, 6, 9, 11: 30
    case 2: year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) ? 29 : 28
    default: 31
    }
  }

  private static func floorDivision(_ value: Int64, _ divisor: Int64) -> (quotient: Int64, remainder: Int64) {
    let (quotient, remainder) = value.quotientAndRemainder(dividingBy: divisor)
    return remainder < 0 ? (quotient - 1, remainder + divisor) : (quotient, remainder)
  }

  private static func append(_ value: Int64, width: Int, to text: inout [UInt8]) {
    let digits = String(value).utf8
    for _ in 0..<max(0, width - digits.count) { text.append(UInt8(ascii: "0")) }
    text.append(contentsOf: digits)
  }
}

/// The unread rest of a date's text.
private struct Digits {
  private(set) var rest: Substring.UTF8View

  init(_ text: Substring.UTF8View) { rest = text }

  mutating func take(_ character: StaticString) -> Bool {
    guard let first = rest.first, first == character.utf8Start.pointee else { return false }
    rest = rest.dropFirst()
    return true
  }

  /// Reads exactly `count` digits.
  mutating func number(_ count: Int) -> Int64? {
    var value: Int64 = 0
    for _ in 0..<count {
      guard let digit = digit() else { return nil }
      value = value * 10 + digit
    }
    return value
  }

  private mutating func digit() -> Int64? {
    guard let first = rest.first, (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(first) else { return nil }
    rest = rest.dropFirst()
    return Int64(first - UInt8(ascii: "0"))
  }

  /// Reads four digits, or a sign and six to nine digits.
  mutating func year() -> Int64? {
    let isNegative = take("-")
    guard isNegative || take("+") else { return number(4) }
    guard var year = number(6) else { return nil }
    for _ in 0..<3 {
      guard let next = digit() else { break }
      year = year * 10 + next
    }
    return isNegative ? -year : year
  }

  /// Milliseconds, rounded; 0 without decimals.
  mutating func fraction() -> Int64? {
    guard take(".") else { return 0 }
    guard var value = digit() else { return nil }
    var count = 1
    var roundsUp = false
    while let next = digit() {
      if count < 3 { value = value * 10 + next } else if count == 3 { roundsUp = next >= 5 }
      count += 1
    }
    for _ in min(count, 3)..<3 { value *= 10 }
    return value + (roundsUp ? 1 : 0)
  }

  /// Minutes east of UTC.
  mutating func offset() -> Int64? {
    if take("Z") || take("z") { return 0 }
    let isWest = take("-")
    guard isWest || take("+"), let hours = number(2), take(":"), let minutes = number(2), hours < 24, minutes < 60
    else { return nil }
    return (hours * 60 + minutes) * (isWest ? -1 : 1)
  }
}
