// Exports through real processes: into the objects' zones, and of a long backlog after a worker was killed.

import Foundation
import Testing

@Suite(.serialized) struct ExportTests {
  private static let model = Checkout.root.appending(path: "deploy/sample/Sample.xcdatamodeld").path
  private static let home = "com.apple.coredata.cloudkit.zone"

  private static func post(_ id: String, _ title: String, in zone: String) -> Value {
    let fields: Value = ["CD_entityName": ["value": "VideoPost"], "CD_title": ["value": .string(title)]]
    let record: Value = ["recordType": "CD_Post", "recordName": .string(id), "fields": fields]
    return ["operations": [["operationType": "create", "record": record]], "zoneID": ["zoneName": .string(zone)]]
  }

  @Test(.timeLimit(.minutes(2)))
  func
    `T-E05 T-E06 objects of a web application's zone are edited there, and no relationship leaves a zone`()
    async throws
  {
    try await Installation.run { installation in
      let user = try await App(installation, model: Self.model).user("alice")
      for zone in ["Trips", "Work"] {
        _ = try await user.records(
          "zones/modify",
          ["operations": [["operationType": "create", "zone": ["zoneID": ["zoneName": .string(zone)]]]]])
        let saved = try await user.records("records/modify", Self.post("post of \(zone)", zone, in: zone))
        #expect(saved["records"][0]["serverErrorCode"] == .null, "\(saved)")
      }
      let device = try await user.device("phone")
      #expect(Set(try await device.importedGraph().graph.objects.keys) == ["post of Trips", "post of Work"])
      let saved = try await device.save([
        MainJob.update("VideoPost", "post of Trips", ["title": "edited"], ["attachments": ["A"]]),
        MainJob.insert("Attachment", "A", ["fileName": "a.mov"]),
        MainJob.insert("Tag", "T", ["name": "sea"], ["posts": ["post of Trips"]]),
        MainJob.insert("Tag", "alone", ["name": "sand"]),
      ])
      #expect(saved["event"]["succeeded"] == true, "\(saved)")
      let trips = try await user.allRecords(in: "Trips").records
      #expect(Set(trips.keys).isSuperset(of: ["post of Trips", "A", "T"]) && trips.count == 4, "\(trips.keys)")
      #expect(
        trips["post of Trips"]?["fields"]["CD_title"]["value"] == "edited"
          && trips["A"]?["fields"]["CD_post"]["value"] == "post of Trips")
      #expect(Array(try await user.allRecords(in: Self.home).records.keys) == ["alone"])

      // The worker dies and comes back: the assignments to zones remain.
      let before = try installation.now()
      #expect(kill(try #require(before.pids["worker"]?.first), SIGKILL) == 0)
      _ = try await installation.waitForReadyFile {
        $0.pids["worker"]?.count == 1 && $0.pids["worker"] != before.pids["worker"]
      }
      let crossing = try await device.send(
        "POST", "/transactions",
        Device.transactions(
          [MainJob.update("Tag", "T", [:], ["posts": ["add": ["post of Work"]]])], id: UUID().uuidString))
      #expect(crossing.status == 400, "\(crossing.text)")
      #expect(
        crossing.text.contains("134060") && crossing.text.contains("'Trips'") && crossing.text.contains("'Work'"),
        "\(crossing.text)")
      try await device.save([MainJob.insert("Tag", "U", ["name": "salt"], ["posts": ["post of Work"]])])
      #expect(try await user.allRecords(in: "Work").records.count == 3)

      // Another device sees one graph, and an operator sees the zone of each object.
      let graph = try await user.device("tablet").importedGraph().graph
      #expect(
        Set(graph.objects.keys) == ["post of Trips", "post of Work", "A", "T", "U", "alone"] && graph.pairs.count == 2)
      let explained = try await installation.aquifer(
        "--json", "explain", "T", "--container", user.app.container, "--environment", "development", "--user", "alice")
      #expect(explained.code == 0, "\(explained.problem)")
      #expect(
        try Value(json: Array(explained.output.utf8))["explain"][0]["zoneID"]["zoneName"] == "Trips",
        "\(explained.output)")
      let elsewhere = try await installation.aquifer(
        "--json", "explain", "T", "--container", user.app.container, "--environment", "development", "--user", "alice",
        "--public")
      #expect(try Value(json: Array(elsewhere.output.utf8))["explain"].elements.isEmpty)
    }
  }

  /// The peak of a process's resident memory since its start, in bytes.
  private static func peakMemory(of pid: Int32) throws -> Int {
    let status = try String(contentsOfFile: "/proc/\(pid)/status", encoding: .utf8)
    let line = try #require(status.split(separator: "\n").first { $0.hasPrefix("VmHWM:") })
    return 1024 * (try #require(line.split(separator: " ").compactMap { Int($0) }.first))
  }

  @Test(.timeLimit(.minutes(5)))
  func
    `T-E16 a worker that is killed with fifty thousand changes pending goes on with bounded memory, each once`()
    async throws
  {
    try await Installation.run { installation in
      let user = try await App(installation, model: Self.model).user("alice")
      let device = try await user.device("phone")
      let count = 50_000
      let text = String(repeating: "x", count: 300)
      for start in stride(from: 0, to: count, by: 10_000) {
        try await device.save(
          (start..<start + 10_000).map { MainJob.insert("Tag", "tag \($0)", ["name": .string("\($0) \(text)")]) },
          waitsForExport: false)
      }
      let killed = try await device.call("GET", "/status")
      let before = try installation.now()
      #expect(kill(try #require(before.pids["worker"]?.first), SIGKILL) == 0)
      let died = ContinuousClock.now
      let after = try await installation.waitForReadyFile {
        $0.pids["worker"]?.count == 1 && $0.pids["worker"] != before.pids["worker"]
      }
      let pid = try #require(after.pids["worker"]?.first)
      var status = try await device.call("GET", "/status")
      let back = died.duration(to: .now)
      let base = try Self.peakMemory(of: pid)
      while status["pendingUploads"].integer != 0 {
        try await Task.sleep(for: .milliseconds(50))
        status = try await device.call("GET", "/status")
      }
      let peak = try Self.peakMemory(of: pid)
      // Every commit of a record takes a sequence number of the database, so a record exported twice would have taken
      // two.
      let zones = try await installation.admin("GET", "/admin/1/zones")["zones"].elements
      let zone = try #require(zones.first { $0["zone"].string == Self.home })
      let summary = try await installation.admin("GET", "/admin/1/status")
      print(
        """
        T-E16: pending at the kill \(killed["pending"]["objects"].integer ?? 0)+ of \(count) objects in \
        \(killed["pendingUploads"].integer ?? 0) transactions; the worker answers after \(back); memory \
        \(base / 1_000_000) MB then, \(peak / 1_000_000) MB at most
        """
      )
      #expect(zone["sequence"].integer.map { $0 <= count + 1 && $0 >= count } == true, "\(zone) \(summary)")
      #expect(peak < 400_000_000, "\(peak) bytes")
      #expect(try await user.allRecords().records.count == count)
    }
  }
}
