// How many rows of a large scan are fetched at a time. It does no I/O.

/// The batches of one scan. They are small while its rows are large, so that memory holds a few megabytes of them.
struct ScanBatches {
  /// The rows to ask for next. A power of two, because each count is a prepared command of its own.
  private(set) var count = 16
  /// False once a batch had fewer rows than were asked for.
  private(set) var mayGoOn = true

  /// Of rows whose sizes the last ones do not foretell, so many are in memory at worst.
  private static let rowLimit = 64
  private static let byteLimit = 4 << 20

  /// Notes the batch that was asked for.
  mutating func note(rowCount: Int, byteCount: Int) {
    mayGoOn = rowCount == count
    guard mayGoOn else { return }
    let fitting = Self.byteLimit / max(1, byteCount / rowCount)
    count = 1
    while count * 2 <= min(fitting, Self.rowLimit) { count *= 2 }
  }
}
