// The files of a store for one account after the other: each account has a file of its own.

import FoundationEssentials

/// Which file a store opens. A user who comes back finds theirs as they left it, with what was not sent.
package struct AccountFiles: Sendable {
  private struct Record: Codable {
    /// Numbers of files by account; number 0 is the path itself.
    var numbers: [String: Int] = [:]
    var current = 0
    /// The largest number that a file ever had; a version that gave numbers again did not keep it.
    var last: Int?
    /// Numbers of removed files of which something may be left: the process may end while it removes them.
    var removing: [Int]?
  }

  private let path: String

  /// - Parameter path: of the store, as the app names it.
  package init(_ path: String) { self.path = path }

  private var recordPath: String { "\(path)-accounts" }

  /// The file of the account that was signed in last. Removes what is left of those of removed accounts.
  package func current() throws(StoreError) -> String {
    let record = try read()
    // Dropped because the next process tries it again.
    try? finishRemoving(record)
    return file(record.current)
  }

  /// The file of another account, which may not be there yet. It opens next only once it is selected.
  /// - Parameters:
  ///   - account: the user's record name.
  ///   - former: whose objects the present file has.
  package func reserve(_ account: String, former: String) throws(StoreError) -> String {
    var record = try read()
    record.numbers[former] = record.current
    let last = max(record.numbers.values.max() ?? 0, record.current, record.last ?? 0)
    let number = record.numbers[account] ?? free(after: last)
    record.numbers[account] = number
    record.last = max(last, number)
    try write(record)
    return file(number)
  }

  /// Makes the reserved file of an account the one that opens next.
  package func select(_ account: String) throws(StoreError) {
    var record = try read()
    guard let number = record.numbers[account] else { throw .damaged("\(recordPath) has no file of \(account)") }
    record.current = number
    try write(record)
  }

  /// Removes the file of an account, with its contents. It must be closed, and not the one that opens next.
  package func remove(_ account: String) throws(StoreError) {
    var record = try read()
    guard let number = record.numbers[account], number != record.current else { return }
    record.numbers[account] = nil
    record.last = max(number, record.last ?? 0)
    record.removing = (record.removing ?? []) + [number]
    try write(record)
    try finishRemoving(record)
  }

  /// Of a store, and of the second file of a reset that the end of a process left.
  private static let suffixes = ["", "-wal", "-shm", "-lock", "-contents", "-reset", "-reset-wal", "-reset-shm"]

  private func finishRemoving(_ record: Record) throws(StoreError) {
    guard let removing = record.removing else { return }
    let paths = removing.map { number in Self.suffixes.map { file(number) + $0 } }
    // Dropped because what is still there is removed by the next process.
    for path in paths.joined() { try? FileManager.default.removeItem(atPath: path) }
    let left = zip(removing, paths).filter { $1.contains(where: FileManager.default.fileExists) }.map(\.0)
    if left.count == removing.count { return }
    var record = record
    record.removing = left.isEmpty ? nil : left
    try write(record)
  }

  /// The next number without a file: a version that gave numbers again may have left one that nobody has.
  private func free(after last: Int) -> Int {
    var number = last + 1
    while FileManager.default.fileExists(atPath: file(number)) { number += 1 }
    return number
  }

  private func write(_ record: Record) throws(StoreError) {
    guard let data = try? JSONEncoder().encode(record) else { throw .damaged("\(recordPath) can't be written") }
    try ContentFile.store(data, at: recordPath)
  }

  private func file(_ number: Int) -> String { number == 0 ? path : "\(path)-account-\(number)" }

  private func read() throws(StoreError) -> Record {
    guard ContentFile.byteCount(recordPath) != nil else { return Record() }
    let data = try ContentFile.contents(of: recordPath)
    do { return try JSONDecoder().decode(Record.self, from: data) } catch {
      throw .damaged("\(recordPath) can't be read")
    }
  }
}
