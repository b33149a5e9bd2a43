// SIGKILL of the worker while two devices send the objects of an ended zone again.

import Foundation
import HTTPClient
import Testing

@Suite(.serialized) struct ReuploadKillTests {
  private static let objectCount = 120
  private static let partCount = 12

  private static let names = (0..<objectCount).map { "tag-\($0)" }
  private static let isEdited = Set(stride(from: 0, to: objectCount, by: 7).map { "tag-\($0)" })

  @Test(.timeLimit(.minutes(2)))
  func `what two devices send again is there once after SIGKILL of the worker, and newer edits stay`() async throws {
    try await Installation.run { installation in
      let model = Checkout.root.appending(path: "deploy/sample/Sample.xcdatamodeld").path
      let user = try await App(installation, model: model).user("alice")
      let (phone, laptop) = (try await user.device("phone"), try await user.device("laptop"))
      try await phone.save(Self.names.map { MainJob.insert("Tag", $0, ["name": "old"]) })
      let container = user.app.container
      let zone = "\(container)/development/\(user.recordName)/com.apple.coredata.cloudkit.zone"
      for device in [phone, laptop] { _ = try await device.changes() }
      try await installation.admin("POST", "/admin/1/zone/\(zone)/end", ["reason": "deleted"])
      for device in [phone, laptop] { _ = try await device.changes() }

      let progress = Progress()
      try await withThrowingTaskGroup(of: Void.self) { group in
        group.addTask {
          // Each part's edits follow it, so the laptop sends older values of them later.
          for part in 0..<Self.partCount {
            try await Self.send(part, from: phone)
            for name in Self.names(of: part) where Self.isEdited.contains(name) {
              try await phone.repeated("\(name)-edit", "app", [MainJob.update("Tag", name, ["name": "new"])])
            }
            await progress.advance()
          }
        }
        group.addTask {
          for part in 0..<Self.partCount {
            await progress.wait(for: part + 1)
            try await Self.send(part, from: laptop)
          }
        }
        group.addTask {
          for part in [2, Self.partCount / 2] {
            await progress.wait(for: part)
            let before = try installation.now().pids["worker"]
            let pid = try #require(before?.first)
            #expect(kill(pid, SIGKILL) == 0)
            _ = try await installation.waitForReadyFile { $0.pids["worker"]?.count == 1 && $0.pids["worker"] != before }
          }
        }
        try await group.waitForAll()
      }
      for device in [phone, laptop] {
        try await device.repeated("last-\(device.store)", "app", [MainJob.insert("Tag", device.store)], "?wait=export")
      }
      try await Self.expect(user, [phone, laptop])
    }
  }

  private static func names(of part: Int) -> ArraySlice<String> {
    let count = objectCount / partCount
    return names[part * count..<(part + 1) * count]
  }

  private static func send(_ part: Int, from device: Device) async throws {
    let inserts = names(of: part).map { MainJob.insert("Tag", $0, ["name": "old"]) }
    try await device.repeated("part-\(part)", "reupload", inserts)
  }

  private static func expect(_ user: User, _ devices: [Device]) async throws {
    let fresh = try await user.device("fresh")
    let imported = try await fresh.changes().changes.filter { $0["changeType"] == "save" }
    let names = Self.names + devices.map(\.store)
    #expect(imported.compactMap { $0["objectID"].string }.sorted() == names.sorted())
    for object in imported {
      let name = object["objectID"].string ?? ""
      if name.hasPrefix("tag-") { #expect(object["attributes"]["name"] == (isEdited.contains(name) ? "new" : "old")) }
    }
    for device in devices {
      let history = try await device.call("GET", "/history?limit=1000")["transactions"].elements
      let parts = history.filter { $0["author"] == "reupload" }
      #expect(parts.count == partCount, "each part is one transaction, however often it was sent")
      #expect(Set(parts.flatMap { $0["changes"].elements.compactMap { $0["objectID"].string } }) == Set(Self.names))
    }
  }
}

/// How far the device is that sends first.
private actor Progress {
  private var count = 0
  private var waiting: [(count: Int, continuation: CheckedContinuation<Void, Never>)] = []

  func advance() {
    count += 1
    for one in waiting where one.count <= count { one.continuation.resume() }
    waiting.removeAll { $0.count <= count }
  }

  func wait(for count: Int) async {
    if self.count >= count { return }
    await withCheckedContinuation { waiting.append((count, $0)) }
  }
}

extension Device {
  /// Sends a transaction until it is acknowledged, as a client does whose answer was lost.
  fileprivate func repeated(_ id: String, _ author: String, _ changes: [Value], _ query: String = "") async throws {
    let body: Value = [
      "transactions": [
        [
          "transactionID": .string("\(store)-\(id)"), "timestamp": "2026-11-20T07:33:24.123Z",
          "author": .string(author), "changes": .array(changes),
        ]
      ]
    ]
    for _ in 0..<3000 {
      do {
        let answer = try await send("POST", "/transactions\(query)", body)
        if answer.status == 200 { return }
        guard answer.status == 503 else { throw Unexpected("\(answer.status) \(answer.text)") }
      } catch is HTTPClientError {
        // Dropped because a lost answer is the same to a client as "later".
      }
      try await Task.sleep(for: .milliseconds(10))
    }
    throw Unexpected("\(id) was not acknowledged")
  }
}
