// SIGKILL of any process in the middle of saves: what was acknowledged is there, once, and the client saw nothing worse than "later".

import Foundation
import HTTPClient
import Synchronization
import Testing

@Suite(.serialized) struct KillTests {
  private static let deviceCount = 4
  private static let savesPerDevice = 250

  /// What the saving devices saw.
  private final class Ledger: Sendable {
    struct Entries: Sendable {
      var acknowledged: Set<String> = []
      var refusals: [String] = []
      var retries = 0
    }
    private let entries = Mutex(Entries())
    func withLock<Result: Sendable>(_ body: (inout Entries) -> Result) -> Result { entries.withLock { body(&$0) } }
  }

  @Test(.timeLimit(.minutes(3)), arguments: ["worker", "gateway", "share", "notifier"])
  func `T-E08 every save that was acknowledged survives SIGKILL of a process, once`(role: String) async throws {
    let model = Checkout.root.appending(path: "deploy/sample/Sample.xcdatamodeld").path
    try await Installation.run { installation in
      let user = try await App(installation, model: model).user("alice")
      var devices: [Device] = []
      for number in 0..<Self.deviceCount { devices.append(try await user.device("device \(number)")) }
      let ledger = Ledger()
      let before = try installation.now()
      try await withThrowingTaskGroup(of: Void.self) { group in
        for device in devices { group.addTask { try await Self.saveAll(on: device, ledger) } }
        group.addTask {
          while ledger.withLock({ $0.acknowledged.count }) < Self.deviceCount * Self.savesPerDevice / 3 { try await Task.sleep(for: .milliseconds(1)) }
          let pid = try #require(before.pids[role]?.first)
          #expect(kill(pid, SIGKILL) == 0)
        }
        try await group.waitForAll()
      }
      let seen = ledger.withLock { $0 }
      #expect(seen.refusals == [])
      #expect(seen.acknowledged.count == Self.deviceCount * Self.savesPerDevice)

      // It was replaced, under its old addresses.
      let after = try await installation.waitForReadyFile { $0.pids[role]?.count == 1 && $0.pids[role] != before.pids[role] }
      #expect((after.gateway, after.notifier) == (before.gateway, before.notifier))
      for other in before.pids.keys where other != role { #expect(after.pids[other] == before.pids[other], "\(other) was restarted, too") }

      try await Self.expectEachOnce(seen.acknowledged, devices, user)
    }
  }

  /// One object a transaction, repeated with the same transaction until it is acknowledged.
  private static func saveAll(on device: Device, _ ledger: Ledger) async throws {
    for number in 0..<savesPerDevice {
      let object = UUID().uuidString
      let body = Device.transactions([MainJob.insert("Tag", object, ["name": .string("tag \(number)")])], id: UUID().uuidString)
      let end = ContinuousClock.now + .seconds(30)
      while true {
        do {
          let answer = try await device.send("POST", "/transactions", body)
          if answer.status == 200 {
            ledger.withLock { _ = $0.acknowledged.insert(object) }
            break
          }
          let isRetryable = answer.status == 503 && answer.header("Retry-After") != nil
          ledger.withLock {
            $0.retries += 1; if !isRetryable { $0.refusals.append("\(answer.status) \(answer.text)") }
          }
          if !isRetryable { return }
        } catch is HTTPClientError {
          // The gateway itself was killed: a client can't tell from a lost network, and comes again.
          ledger.withLock { $0.retries += 1 }
        }
        guard ContinuousClock.now < end else {
          ledger.withLock { $0.refusals.append("a save was not acknowledged within 30 s") }
          return
        }
        try await Task.sleep(for: .milliseconds(10))
      }
    }
  }

  private static func expectEachOnce(_ objects: Set<String>, _ devices: [Device], _ user: User) async throws {
    // In the histories: every transaction once, in ascending order.
    var saved: [String] = []
    for device in devices {
      var token: String?
      var numbers: [Int64] = []
      while true {
        let query = token.map { "&after=" + ($0.addingPercentEncoding(withAllowedCharacters: .alphanumerics) ?? "") } ?? ""
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

    // On a device that comes new, once exports are through.
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
