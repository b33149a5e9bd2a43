// Collects the saves of devices, and checks that every acknowledged save is there exactly once.

import Foundation
import HTTPClient
import Synchronization
import Testing

/// The observations of saving devices.
final class SaveLedger: Sendable {
  struct Entries: Sendable {
    /// Objects.
    var acknowledged: Set<String> = []
    /// Answers that a client can't handle.
    var refusals: [String] = []
    /// Attempts with the answer "later" or without an answer.
    var retries = 0
  }

  private let state = Mutex(Entries())
  var entries: Entries { state.withLock { $0 } }

  /// Saves objects, one in each transaction, each repeated as the same transaction until it is acknowledged.
  /// - Parameter limit: the time for one save.
  func save(_ count: Int, on device: Device, within limit: Duration = .seconds(30)) async throws {
    for number in 0..<count where try await !save("tag \(number)", on: device, within: limit) { return }
  }

  /// - Returns: true when the save was acknowledged.
  func save(_ name: String, on device: Device, within limit: Duration = .seconds(30)) async throws -> Bool {
    let object = UUID().uuidString
    let body = Device.transactions([MainJob.insert("Tag", object, ["name": .string(name)])], id: UUID().uuidString)
    let end = ContinuousClock.now + limit
    while true {
      do {
        let answer = try await device.send("POST", "/transactions", body)
        if answer.status == 200 {
          state.withLock { _ = $0.acknowledged.insert(object) }
          return true
        }
        let isRetryable = answer.status == 503 && answer.header("Retry-After") != nil
        state.withLock {
          $0.retries += 1
          if !isRetryable { $0.refusals.append("\(answer.status) \(answer.text)") }
        }
        if !isRetryable { return false }
      } catch is HTTPClientError {
        // The gateway itself was killed. For a client this looks like a lost network, so it tries again.
        state.withLock { $0.retries += 1 }
      }
      guard ContinuousClock.now < end else {
        state.withLock { $0.refusals.append("a save was not acknowledged within \(limit)") }
        return false
      }
      try await Task.sleep(for: .milliseconds(10))
    }
  }

  /// Compares the acknowledged saves with the devices' histories and with the import of a new device.
  func expectEachOnce(on devices: [Device], of user: User) async throws {
    let objects = entries.acknowledged
    // The histories have every transaction once, in ascending order.
    var saved: [String] = []
    for device in devices {
      var token: String?
      var numbers: [Int64] = []
      while true {
        let query =
          token.map { "&after=" + ($0.addingPercentEncoding(withAllowedCharacters: .alphanumerics) ?? "") } ?? ""
        let page = try await device.call("GET", "/history?limit=100\(query)")
        for transaction in page["transactions"].elements where transaction["author"] == "app" {
          numbers.append(try #require(transaction["transactionNumber"].integer))
          saved += transaction["changes"].elements.compactMap { $0["objectID"].string }
        }
        token = page["historyToken"].string
        guard page["moreComing"].bool == true else { break }
      }
      #expect(numbers == numbers.sorted())
      #expect(Set(numbers).count == numbers.count)
    }
    #expect(saved.count == objects.count)
    #expect(Set(saved) == objects)

    // A new device imports all of them once the exports are done.
    let fresh = try await user.device("fresh")
    var (changes, token) = try await fresh.changes()
    for _ in 0..<1000 where changes.count < objects.count {
      try await Task.sleep(for: .milliseconds(20))
      let more = try await fresh.changes(after: token)
      changes += more.changes
      token = more.token
    }
    let imported = changes.compactMap { $0["objectID"].string }
    #expect(imported.count == objects.count)
    #expect(Set(imported) == objects)
  }
}
