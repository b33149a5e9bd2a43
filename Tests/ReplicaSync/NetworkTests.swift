// Devices that were away, processes that are killed, other accounts: against the real server's processes.

import Foundation
import MirrorWire
import ReplicaSync
import ReplicaWorld
import Synchronization
import Testing
import URLSessionTransport

@testable import ReplicaStore

@Suite(.serialized, .enabled(if: Server.binaries != nil)) struct NetworkTests {
  private func stored(_ server: Server) async throws -> StoredReplica {
    try await StoredReplica("\(server.folder.path)/\(UUID().uuidString)", modelHash: server.modelHash)
  }

  @Test func `two devices that saved 1000 times offline each are equal once both are online`() async throws {
    try await Server.run { server in
      let user = try await server.user("grace")
      let devices = [
        try await Device(user, replica: try await stored(server)),
        try await Device(user, replica: try await stored(server)),
      ]
      for device in devices { try await device.sync() }
      for device in devices { await device.mirroring.stop() }
      for (index, device) in devices.enumerated() {
        for number in 0..<1000 {
          try await device.replica.save { edit in
            if number < 50 {
              edit.insert("Post", "p\(index)-\(number)", ["title": .string("t")])
            } else {
              edit.set("title", of: "p\(index)-\(number % 50)", .string("\(index) \(number)"))
            }
          }
        }
      }
      for _ in 0..<2 { for device in devices { try await device.sync() } }
      let (shown, others) = (try await devices[0].shown(), try await devices[1].shown())
      #expect(shown.count == 100 && shown == others)
      #expect(shown.contains("Post p0-7: title=string(\"0 957\")"))
      for device in devices { await device.mirroring.stop() }
    }
  }

  @Test func `a process that is killed loses no save that it told of, and saves nothing twice`() async throws {
    let kills = ProcessInfo.processInfo.environment["AQUIFER_KILLS"].flatMap { Int($0) } ?? 12
    try await Server.run(["--rate-limit", "100000", "--rate-burst", "100000"]) { server in
      let user = try await server.user("grace")
      let file = "\(server.folder.path)/killed"
      let chance = Chance(Int(ProcessInfo.processInfo.processIdentifier))
      var told: Set<String> = []
      for kill in 0..<kills {
        let (peer, output) = try peer(user, file, "k\(kill)")
        for _ in 0..<(20 + chance.number(60)) { try await Task.sleep(for: .milliseconds(5)) }
        Foundation.kill(peer.processIdentifier, SIGKILL)
        // A line without its end was not told wholly.
        let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        peer.waitUntilExit()
        told.formUnion(text.split(separator: "\n", omittingEmptySubsequences: false).dropLast().map(String.init))
      }
      let (last, _) = try peer(user, file, "-")
      last.waitUntilExit()
      #expect(last.terminationStatus == 0)
      let (fresh, output) = try peer(user, "\(server.folder.path)/fresh", "-")
      let names = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self).split(
        separator: "\n"
      ).map(String.init)
      fresh.waitUntilExit()
      #expect(told.count > kills && told.isSubset(of: names), "\(told.subtracting(names).count) saves are lost")
      #expect(names.count == Set(names).count)
      print("kills: \(kills), told \(told.count), on the server \(names.count)")
    }
  }

  @Test func `an app that is killed before it decides about a refused save is asked again, and then never again`()
    async throws
  {
    try await Server.run { server in
      let user = try await server.user("grace")
      let file = "\(server.folder.path)/undecided"
      // A name that the server reserves.
      let (killed, output) = try peer(user, file, "CD_FAKE_tag", "1")
      var text = ""
      while !text.contains("asked"), case let data = output.fileHandleForReading.availableData, !data.isEmpty {
        text += String(decoding: data, as: UTF8.self)
      }
      #expect(text == "CD_FAKE_tag.0\nasked\n")
      Foundation.kill(killed.processIdentifier, SIGKILL)
      killed.waitUntilExit()
      // The first answer counts: a save that is kept stays shown.
      for (decision, expected) in [("-keepForLater", "asked\nCD_FAKE_tag.0\n"), ("-revert", "CD_FAKE_tag.0\n")] {
        let (next, output) = try peer(user, file, decision)
        let told = try output.fileHandleForReading.readToEnd() ?? Data()
        next.waitUntilExit()
        #expect(String(decoding: told, as: UTF8.self) == expected && next.terminationStatus == 0)
      }
    }
  }

  private func peer(_ user: User, _ file: String, _ words: String...) throws -> (Process, Pipe) {
    let process = Process()
    process.executableURL = URL(filePath: CommandLine.arguments[0]).deletingLastPathComponent().appending(
      path: "client-peer")
    process.arguments = [user.server.gateway, Server.container, user.server.modelHash, user.token, file] + words
    let output = Pipe()
    process.standardOutput = output
    try process.runUnblocked()
    return (process, output)
  }

  @Test func `pings tell of another device's save`() async throws {
    try await Server.run { server in
      let user = try await server.user("grace")
      let phone = try await Device(user, replica: try await stored(server), hasPings: true)
      let laptop = try await Device(user, replica: try await stored(server), hasPings: true)
      for device in [phone, laptop] { try await device.sync() }
      for number in 0..<5 {
        try await phone.replica.save { $0.insert("Tag", "t\(number)", ["name": .string("sea")]) }
        try await until { try await laptop.shown().count == number + 1 }
      }
      for device in [phone, laptop] { await device.mirroring.stop() }
    }
  }

  @Test func `URLSession mirrors as libcurl does`() async throws {
    try await Server.run { server in
      let user = try await server.user("grace")
      let transport = URLSessionTransport()
      let phone = try await Device(user, replica: try await stored(server), transport: transport, hasPings: true)
      let laptop = try await Device(user, replica: try await stored(server))
      for device in [phone, laptop] { try await device.sync() }
      try await laptop.replica.save { $0.insert("Tag", "t1", ["name": .string("sea")]) }
      try await phone.replica.save { $0.insert("Tag", "t2", ["name": .string("sand")]) }
      try await until {
        let counts = (try await phone.shown().count, try await laptop.shown().count)
        return counts == (2, 2)
      }
      let error = await #expect(throws: TransportError.self) {
        try await transport.send(TransportRequest("GET", "http://127.0.0.1:1/"))
      }
      #expect(error?.kind == .unreachable)
      for device in [phone, laptop] { await device.mirroring.stop() }
    }
  }

  @Test func `a store of another account is not mixed with this one's`() async throws {
    try await Server.run { server in
      let (grace, ida) = (try await server.user("grace"), try await server.user("ida"))
      let path = "\(server.folder.path)/store"
      let replica = try await StoredReplica(path, modelHash: server.modelHash)
      let first = try await Device(grace, replica: replica)
      try await first.sync()
      try await first.replica.save { $0.insert("Tag", "t1", ["name": .string("grace's")]) }
      try await first.sync()
      await first.mirroring.stop()
      // Ida signs in on the same file: the server says whose it is, and nothing is sent or imported.
      let second = try await Device(ida, replica: replica)
      try await replica.save { $0.insert("Tag", "t2", ["name": .string("late")]) }
      await #expect(throws: StoreError.accountChanged) { try await second.sync() }
      await second.mirroring.stop()
      let fresh = try await Device(ida, replica: try await stored(server))
      try await fresh.sync()
      #expect(try await fresh.shown().isEmpty)
      // Grace is back, and nothing is lost.
      let third = try await Device(grace, replica: replica)
      try await third.sync()
      let other = try await Device(grace, replica: try await stored(server))
      try await other.sync()
      #expect(try await other.shown().count == 2)
      for device in [third, fresh, other] { await device.mirroring.stop() }
    }
  }

  private func until(_ condition: () async throws -> Bool) async throws {
    for _ in 0..<2000 {
      if try await condition() { return }
      try await Task.sleep(for: .milliseconds(5))
    }
    throw Unexpected("the condition did not come true")
  }
}
