// When an edit was made, as far as the clock of its device is believed (C1, T-C10).

public import History

/// A hybrid of clocks: what the device says, not further ahead of the server than a minute, and never before what it had seen.
public enum EditTime {
  /// How far a device's clock may be ahead of the server's. Unit: milliseconds.
  public static let tolerance: Int64 = 60_000

  /// - Parameters:
  ///   - timestamp: the client's clock, and `savedAt`: the server's when the edit came; milliseconds since 1970.
  ///   - base: the sequence up to which the client had imported the database.
  public static func edit(_ timestamp: Int64, savedAt: Int64, base: Int64) -> HistoryTransaction.Edit {
    HistoryTransaction.Edit(base: base, time: min(timestamp, savedAt + tolerance))
  }

  /// An edit's time after everything that its device had seen of the field.
  static func time(_ time: Int64, after seen: Int64?) -> Int64 { seen.map { max(time, $0 + 1) } ?? time }
}
