// Dates as the object plane writes them, exact and quick: an import reads one for each object.

public import FoundationEssentials

/// RFC 3339 in UTC with milliseconds, such as `2026-11-20T07:33:24.123Z`.
public enum WireDate {
  private static let dayLength: Int64 = 86_400_000

  public static func text(_ date: Date) -> String {
    text(milliseconds: Int64((date.timeIntervalSince1970 * 1000).rounded()))
  }

  /// - Returns: nil for other text.
  public static func date(_ text: String) -> Date? {
    milliseconds(text).map { Date(timeIntervalSince1970: Double($0) / 1000) }
  }

  /// - Parameter milliseconds: since 1970.
  public static func text(milliseconds: Int64) -> String {
    let (day, time) = milliseconds.quotientAndModulus(dividingBy: dayLength)
    let (year, month, dayOfMonth) = calendarDate(ofDay: day)
    var text: [UInt8] = []
    text.reserveCapacity(24)
    func append(_ number: Int64, _ width: Int, _ separator: Unicode.Scalar) {
      let digits = Array(String(number.magnitude).utf8)
      text.append(contentsOf: repeatElement(UInt8(ascii: "0"), count: max(0, width - digits.count)))
      text.append(contentsOf: digits)
      text.append(UInt8(ascii: separator))
    }
    if (0...9999).contains(year) {
      append(year, 4, "-")
    } else {
      text.append(UInt8(ascii: year < 0 ? "-" : "+"))
      append(year, 6, "-")
    }
    append(month, 2, "-")
    append(dayOfMonth, 2, "T")
    append(time / 3_600_000, 2, ":")
    append(time / 60_000 % 60, 2, ":")
    append(time / 1000 % 60, 2, ".")
    append(time % 1000, 3, "Z")
    return String(decoding: text, as: UTF8.self)
  }

  /// Reads UTC with at most nine decimals; those beyond milliseconds are cut off.
  /// - Returns: milliseconds since 1970; nil for other text.
  public static func milliseconds(_ text: String) -> Int64? {
    var rest = text.utf8[...]
    func take(_ character: Unicode.Scalar) -> Bool {
      guard rest.first == UInt8(ascii: character) else { return false }
      rest.removeFirst()
      return true
    }
    func number(_ count: Int) -> Int64? {
      var number: Int64 = 0
      for _ in 0..<count {
        guard let byte = rest.first, (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) else { return nil }
        rest.removeFirst()
        number = number * 10 + Int64(byte - UInt8(ascii: "0"))
      }
      return number
    }
    let isNegative = take("-")
    guard let year = number(isNegative || take("+") ? 6 : 4), take("-"), let month = number(2), take("-"),
      let day = number(2), take("T"), let hour = number(2), take(":"), let minute = number(2), take(":"),
      let second = number(2), (1...12).contains(month), (1...31).contains(day), hour < 24, minute < 60, second < 60
    else { return nil }
    var fraction: Int64 = 0
    if take(".") {
      for place in 0..<9 {
        guard let digit = number(1) else {
          if place == 0 { return nil }
          break
        }
        if place < 3 { fraction += digit * [100, 10, 1][place] }
      }
    }
    let number = dayNumber(isNegative ? -year : year, month, day)
    guard take("Z"), rest.isEmpty, calendarDate(ofDay: number).day == day else { return nil }
    return number * dayLength + hour * 3_600_000 + minute * 60_000 + second * 1000 + fraction
  }

  // MARK: The proleptic Gregorian calendar, in years that begin in March

  /// Days since 1970.
  private static func dayNumber(_ year: Int64, _ month: Int64, _ day: Int64) -> Int64 {
    let (era, yearOfEra) = (month > 2 ? year : year - 1).quotientAndModulus(dividingBy: 400)
    let dayOfYear = (153 * ((month + 9) % 12) + 2) / 5 + day - 1
    return era * 146_097 + yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear - 719_468
  }

  private static func calendarDate(ofDay number: Int64) -> (year: Int64, month: Int64, day: Int64) {
    let (era, dayOfEra) = (number + 719_468).quotientAndModulus(dividingBy: 146_097)
    let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
    let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
    let place = (5 * dayOfYear + 2) / 153
    let month = place < 10 ? place + 3 : place - 9
    return (era * 400 + yearOfEra + (month <= 2 ? 1 : 0), month, dayOfYear - (153 * place + 2) / 5 + 1)
  }
}

extension Int64 {
  /// With a remainder that is never negative.
  fileprivate func quotientAndModulus(dividingBy divisor: Int64) -> (Int64, Int64) {
    let (quotient, remainder) = quotientAndRemainder(dividingBy: divisor)
    return remainder < 0 ? (quotient - 1, remainder + divisor) : (quotient, remainder)
  }
}
