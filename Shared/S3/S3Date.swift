// Times as signatures and HTTP spell them.

/// Converts between seconds since 1970 (UTC) and texts.
public enum S3Date {
  /// `20130524T000000Z`; its first 8 characters are the day.
  static func text(_ seconds: Int64) -> String {
    // Days become a civil date by eras of 400 years that begin in March (Howard Hinnant's algorithm).
    let days = seconds / 86_400 + 719_468
    let (era, dayOfEra) = (days / 146_097, days % 146_097)
    let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
    let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
    let shifted = (5 * dayOfYear + 2) / 153
    let month = shifted < 10 ? shifted + 3 : shifted - 9
    let year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0)
    let time = seconds % 86_400
    let day = digits(year, 4) + digits(month, 2) + digits(dayOfYear - (153 * shifted + 2) / 5 + 1, 2)
    return day + "T" + digits(time / 3600, 2) + digits(time / 60 % 60, 2) + digits(time % 60, 2) + "Z"
  }

  /// Reads an HTTP date, `Fri, 24 May 2013 00:00:00 GMT`.
  public static func seconds(ofHTTP text: String) -> Int64? {
    let words = text.split { $0 == " " || $0 == ":" }
    guard words.count == 8, words[7] == "GMT", let day = Int64(words[1]), let year = Int64(words[3]),
      let month = months.firstIndex(of: words[2]).map({ Int64($0) + 1 }), let hour = Int64(words[4]),
      let minute = Int64(words[5]), let second = Int64(words[6]), (1...31).contains(day), (1970...9999).contains(year),
      (0...23).contains(hour), (0...59).contains(minute), (0...60).contains(second)
    else { return nil }
    return days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second
  }

  /// Reads a date of a document, `2013-05-24T00:00:00.000Z`.
  public static func seconds(ofXML text: String) -> Int64? {
    let halves = text.split(separator: "T", omittingEmptySubsequences: false)
    guard halves.count == 2, halves[1].hasSuffix("Z") else { return nil }
    let date = halves[0].split(separator: "-", omittingEmptySubsequences: false).map { Int64($0) }
    let time = halves[1].dropLast().prefix { $0 != "." }.split(separator: ":", omittingEmptySubsequences: false)
      .map { Int64($0) }
    guard date.count == 3, time.count == 3, let year = date[0], let month = date[1], let day = date[2],
      let hour = time[0], let minute = time[1], let second = time[2], (1970...9999).contains(year),
      (1...12).contains(month), (1...31).contains(day), (0...23).contains(hour), (0...59).contains(minute),
      (0...60).contains(second)
    else { return nil }
    return days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second
  }

  /// The days from 1970 to a civil date.
  private static func days(_ year: Int64, _ month: Int64, _ day: Int64) -> Int64 {
    let shiftedYear = month <= 2 ? year - 1 : year
    let (era, yearOfEra) = (shiftedYear / 400, shiftedYear % 400)
    let dayOfYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1
    return era * 146_097 + yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear - 719_468
  }

  private static let months: [Substring] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
  ]

  private static func digits(_ number: Int64, _ count: Int) -> String {
    let text = String(number)
    return String(repeating: "0", count: max(count - text.utf8.count, 0)) + text
  }
}
