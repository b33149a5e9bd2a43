// The main job with real models through real processes: one device saves, another imports, and the records must agree.

import Foundation
import Testing

/// The path of a shared model; nil, with a printed reason, where it is absent.
func sharedModel(_ name: String) -> String? {
  guard let folder = Checkout.sharedModels else {
    print("skipped: \(name) is read from ../shared/models, which is not beside this checkout")
    return nil
  }
  return folder.appending(path: name).path
}

@Suite(.serialized) struct MainJobTests {
  @Test(.timeLimit(.minutes(3)), arguments: [MainJob.share, .demo, .tickmate, .everything])
  func `a graph saved on one device is the same on another and in the records, and stays quiet`(_ job: MainJob)
    async throws
  {
    guard let model = job.model.contains("/") ? Checkout.root.appending(path: job.model).path : sharedModel(job.model)
    else { return }
    try await Installation.run(workers: 2) { installation in
      let app = try await App(installation, model: model)
      let user = try await app.user("alice")
      let (first, second) = (try await user.device("A"), try await user.device("B"))
      for changes in job.saves { try await first.save(changes) }

      let imported = try await second.importedGraph()
      try compare(imported.graph, job.graph)
      let stored = try await user.allRecords()
      try await compare(stored.records, job, user)

      // No echoes: neither to the saving device, nor to the importing one, nor into the zone.
      var tokens: [Value] = [try await first.changes().token, imported.token]
      #expect(try await first.changes().changes.isEmpty)
      for _ in 0..<20 {
        for (index, device) in [first, second].enumerated() {
          let (changes, token) = try await device.changes(after: tokens[index])
          #expect(changes.isEmpty, "\(changes)")
          tokens[index] = token
        }
        let zone = try await user.records(
          "changes/zone",
          ["zones": [["zoneID": ["zoneName": "com.apple.coredata.cloudkit.zone"], "syncToken": stored.token]]])
        #expect(zone["zones"][0]["records"] == [])
      }
      let status = try await second.call("GET", "/status")
      #expect(status["pendingUploads"].integer == 0)
    }
  }

  private func compare(_ imported: Graph, _ expected: Graph) throws {
    #expect(imported.pairs == expected.pairs)
    #expect(Set(imported.objects.keys) == Set(expected.objects.keys))
    for (id, object) in expected.objects {
      let found = imported.objects[id]
      #expect(found?.entity == object.entity)
      #expect(found?.toOnes == object.toOnes, "\(object.entity) \(id)")
      #expect(Set((found?.attributes ?? [:]).keys) == Set(object.attributes.keys), "\(object.entity) \(id)")
      for (name, value) in object.attributes {
        // Without `==` in the expectation, because a failure would print a photo.
        let isEqual = found?.attributes[name] == value
        #expect(isEqual, "\(object.entity).\(name) of \(id) differs")
      }
    }
  }

  private func compare(_ records: [String: Value], _ job: MainJob, _ user: User) async throws {
    var links: Set<[String]> = []
    for (name, record) in records where record["recordType"] == "CDMR" {
      let fields = record["fields"]
      #expect(Set(fields.members.keys) == ["CD_entityNames", "CD_relationships", "CD_recordNames"])
      #expect(fields.members.values.allSatisfy { $0["type"] == "STRING" })
      links.insert(["CD_entityNames", "CD_relationships", "CD_recordNames"].map { fields[$0]["value"].string ?? "" })
      #expect(UUID(uuidString: name)?.uuidString == name)
    }
    #expect(links == job.linkRecords && links.count == job.graph.pairs.count)

    #expect(records.count == job.graph.objects.count + job.graph.pairs.count)
    for (id, object) in job.graph.objects {
      guard let record = records[id] else {
        Issue.record("no record of \(object.entity) \(id)")
        continue
      }
      #expect(record["recordType"].string == "CD_\(job.roots[object.entity] ?? object.entity)")
      #expect(record["zoneID"]["zoneName"].string == "com.apple.coredata.cloudkit.zone")
      #expect(record["zoneID"]["ownerRecordName"].string == user.recordName)
      var expected: [String: Value] = ["CD_entityName": ["value": .string(object.entity), "type": "STRING"]]
      for (name, target) in object.toOnes { expected["CD_\(name)"] = ["value": .string(target), "type": "STRING"] }
      for (name, value) in object.attributes {
        let attribute = "\(job.roots[object.entity] ?? object.entity).\(name)"
        expected["CD_\(name)"] = try job.field(value, of: attribute)
        if job.exact.contains(attribute) {
          expected["CD_\(name)_exact"] = .object(
            ["value": value, "type": "STRING"].merging(job.encrypted.contains(attribute) ? ["isEncrypted": true] : [:])
            { $1 })
        }
      }
      try await compareFields(
        record["fields"].members, expected, "\(object.entity) \(id)", job.assets.filter { $0.hasPrefix(id) }, user)
    }
    // A lookup by name gives the same answer as the feed.
    let name = try #require(job.graph.objects.keys.min())
    let found = try await user.records(
      "records/lookup",
      ["zoneID": ["zoneName": "com.apple.coredata.cloudkit.zone"], "records": [["recordName": .string(name)]]])
    #expect(found["records"][0]["fields"] == records[name]?["fields"])
    #expect(found["records"][0]["recordChangeTag"] == records[name]?["recordChangeTag"])
  }

  /// Compares field by field. Bytes may be an asset, and must be one when they are too large.
  private func compareFields(
    _ fields: [String: Value], _ expected: [String: Value], _ place: String, _ assets: Set<String>, _ user: User
  ) async throws {
    var fields = fields
    for (name, value) in expected {
      let asset = fields.removeValue(forKey: name + "_ckAsset")
      let field = fields.removeValue(forKey: name)
      let mustBeAsset = assets.contains { "CD_" + ($0.split(separator: ".").last ?? "") == name }
      #expect((asset != nil) || !mustBeAsset, "\(place): \(name) must be an asset")
      if let asset {
        #expect(asset["type"] == "ASSETID")
        let url = try #require(asset["value"]["downloadURL"].string)
        let answer = try await user.app.installation.send("GET", url)
        #expect(answer.status == 200)
        #expect(asset["value"]["size"].integer == Int64(answer.bytes.count))
        let isEqual = Data(answer.bytes).base64EncodedString() == value["value"].string
        #expect(isEqual, "\(place): the asset of \(name) differs")
      } else {
        let isEqual = value["value"] == .null ? field?["type"] == value["type"] : field == value
        #expect(isEqual, "\(place): \(name) differs")
      }
    }
    #expect(fields.keys.sorted() == [], "\(place) has fields of its own")
  }

  @Test(.timeLimit(.minutes(2))) func `edits, unlinks and deletes of the second device come back to the first`()
    async throws
  {
    guard let model = sharedModel(MainJob.share.model) else { return }
    try await Installation.run { installation in
      let user = try await App(installation, model: model).user("alice")
      let (first, second) = (try await user.device("A"), try await user.device("B"))
      for changes in MainJob.share.saves { try await first.save(changes) }
      var (graph, _) = try await second.importedGraph()
      let (_, before) = try await first.changes()

      let (photo, tag, rating) = (
        "B0000000-0000-4000-8000-000000000002", "A1000000-0000-4000-8000-000000000001",
        "E1000000-0000-4000-8000-000000000002"
      )
      try await second.save([
        MainJob.update(
          "Photo", photo, ["displayName": "renamed", "uniqueName": nil], ["tags": ["remove": [.string(tag)]]]),
        MainJob.delete("Rating", rating),
      ])
      graph.objects[photo]?.attributes["displayName"] = "renamed"
      graph.objects[photo]?.attributes.removeValue(forKey: "uniqueName")
      graph.pairs.remove(Graph.Pair(photo, tag))
      graph.objects.removeValue(forKey: rating)

      let back = try await first.changes(after: before).changes
      #expect(Set(back.compactMap { $0["changeType"].string }) == ["save", "unlink", "delete"])
      #expect(back.count == 3, "\(back)")
      #expect(try await second.changes(after: try await second.changes().token).changes.isEmpty)
      let third = try await user.device("C")
      try compare(try await third.importedGraph().graph, graph)
    }
  }
}
