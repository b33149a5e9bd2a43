// When an edit was made, as far as the clock of its device is believed (C1, T-C10).

public import History

/// A hybrid clock: the device's time, at most one minute ahead of the server's, and later than every edit the device
/// had seen.
public enum EditTime {
  /// The lead that a device's clock may have over the server's, in milliseconds.
  public static let tolerance: Int64 = 60_000

  /// - Parameters:
  ///   - timestamp: the client's clock, milliseconds since 1970.
  ///   - savedAt: the server's clock when the edit arrived, milliseconds since 1970.
  ///   - base: the sequence number up to which the client had imported the database.
  public static func edit(_ timestamp: Int64, savedAt: Int64, base: Int64) -> HistoryTransaction.Edit {
    HistoryTransaction.Edit(base: base, time: min(timestamp, savedAt + tolerance))
  }

  /// An edit's time, at least a millisecond after the latest edit of the field that its device had seen.
  static func time(_ time: Int64, after seen: Int64?) -> Int64 { seen.map { max(time, $0 + 1) } ?? time }
}
