// The time in a mail's head (RFC 5322).

enum MailDate {
  private static let days = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"]
  private static let months = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
  ]

  /// - Parameter time: milliseconds since 1970, not before.
  static func text(_ time: Int64) -> String {
    let seconds = max(0, time) / 1000
    let (day, second) = (seconds / 86_400, seconds % 86_400)
    // The days since 1 March of the year 0 make leap days the last of their years.
    let shifted = day + 719_468
    let (era, ofEra) = (shifted / 146_097, shifted % 146_097)
    let yearOfEra = (ofEra - ofEra / 1460 + ofEra / 36_524 - ofEra / 146_096) / 365
    let ofYear = ofEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
    let shiftedMonth = (5 * ofYear + 2) / 153
    let month = shiftedMonth < 10 ? shiftedMonth + 3 : shiftedMonth - 9
    let year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0)
    let date = "\(days[Int(day % 7)]), \(ofYear - (153 * shiftedMonth + 2) / 5 + 1) \(months[Int(month) - 1]) \(year)"
    return "\(date) \(two(second / 3600)):\(two(second / 60 % 60)):\(two(second % 60)) +0000"
  }

  private static func two(_ number: Int64) -> String { number < 10 ? "0\(number)" : String(number) }
}
