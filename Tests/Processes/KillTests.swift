// SIGKILL of any process during saves: acknowledged saves are there exactly once, and clients get nothing worse than
// "later".

import Foundation
import Testing

@Suite(.serialized) struct KillTests {
  private static let deviceCount = 4
  private static let savesPerDevice = 250

  @Test(.timeLimit(.minutes(3)), arguments: ["worker", "gateway", "share", "notifier"])
  func `T-E08 every save that was acknowledged survives SIGKILL of a process, once`(role: String) async throws {
    let model = Checkout.root.appending(path: "deploy/sample/Sample.xcdatamodeld").path
    try await Installation.run { installation in
      let user = try await App(installation, model: model).user("alice")
      var devices: [Device] = []
      for number in 0..<Self.deviceCount { devices.append(try await user.device("device \(number)")) }
      let ledger = SaveLedger()
      let before = try installation.now()
      try await withThrowingTaskGroup(of: Void.self) { group in
        for device in devices { group.addTask { try await ledger.save(Self.savesPerDevice, on: device) } }
        group.addTask {
          while ledger.entries.acknowledged.count < Self.deviceCount * Self.savesPerDevice / 3 {
            try await Task.sleep(for: .milliseconds(1))
          }
          let pid = try #require(before.pids[role]?.first)
          #expect(kill(pid, SIGKILL) == 0)
        }
        try await group.waitForAll()
      }
      #expect(ledger.entries.refusals == [])
      #expect(ledger.entries.acknowledged.count == Self.deviceCount * Self.savesPerDevice)

      // The process was restarted under its old addresses.
      let after = try await installation.waitForReadyFile {
        $0.pids[role]?.count == 1 && $0.pids[role] != before.pids[role]
      }
      #expect((after.gateway, after.notifier) == (before.gateway, before.notifier))
      for other in before.pids.keys where other != role {
        #expect(after.pids[other] == before.pids[other], "\(other) was restarted, too")
      }

      try await ledger.expectEachOnce(on: devices, of: user)
    }
  }
}
