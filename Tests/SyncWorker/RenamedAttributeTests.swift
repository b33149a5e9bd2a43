// Stores that are set up with a model in which an attribute has another name (R18).

import History
import ObjectModel
import RecordStore
import Records
import Testing

@testable import ObjectPlane
@testable import ZoneCommit

struct RenamedAttributeTests {
  /// PhotoModel with another name for a tag's name.
  private static let renamed: ManagedObjectModel = {
    var model = PhotoModel.model
    for index in model.entities.indices where model.entities[index].name == "Tag" {
      var label = Attribute(name: "label", type: .string)
      label.renamingIdentifier = "name"
      model.entities[index].attributes.removeAll { $0.name == "name" }
      model.entities[index].attributes.append(label)
    }
    return model
  }()

  @Test(arguments: StoreKind.allCases)
  func `a store that changes the model while others go on with the earlier one is told their latest values`(
    _ kind: StoreKind
  ) async throws {
    try await ObjectPlaneWorld.with(kind) { world in
      func save(_ store: String, _ change: String) async throws {
        #expect(try await world.save(store, change, query: ["wait": "export"]).status == 200)
      }
      world.schemas.add(Self.renamed, to: .development)
      let (phone, pad) = (try await Device("phone", world), try await Device("pad", world))
      try await save("phone", #"{"changeType":"insert","entity":"Tag","objectID":"T","attributes":{"name":"Waves"}}"#)
      try await pad.pull()
      try await save("phone", #"{"changeType":"update","entity":"Tag","objectID":"T","attributes":{"name":"Storm"}}"#)
      // Nobody has exported this save when the store is set up anew.
      let own = HistoryChange(
        changeType: .insert, entity: "Tag", objectID: "U",
        attributes: [NamedValue(name: "name", value: .string("mine"))])
      try await world.appendWithoutExport(
        [HistoryTransaction(transactionID: "own", timestamp: 0, changes: [own])], to: "pad")
      let body = #"{"modelHash":"\#(ModelIndex(Self.renamed).modelHash)"}"#
      #expect(try await world.send(world.request("PUT", "stores/pad"), body).status == 200)
      try await pad.pull()
      #expect(pad.graph.objects["T"]?["label"] == "\"Storm\"")
      let record = try #require(try await world.liveRecords().first { $0.recordName == "U" })
      #expect(record.fields == ["CD_entityName": .string("Tag"), "CD_label": .string("mine")])
      // The first edit under the new name is the first that devices with the earlier model do not see.
      try await save("phone", #"{"changeType":"update","entity":"Tag","objectID":"T","attributes":{"name":"Calm"}}"#)
      try await pad.pull()
      #expect(pad.graph.objects["T"]?["label"] == "\"Calm\"")
      try await save("pad", #"{"changeType":"update","entity":"Tag","objectID":"T","attributes":{"label":"Ebb"}}"#)
      try await phone.pull()
      #expect(phone.graph.objects["T"]?["name"] == "\"Calm\"")
    }
  }

  @Test(arguments: StoreKind.allCases)
  func `a rule by an attribute's former name leaves records alone that have a value under the later name`(
    _ kind: StoreKind
  ) async throws {
    try await ObjectPlaneWorld.with(kind) { world in
      world.declareTags()
      world.schemas.add(Self.renamed, to: .development)
      try await world.setUp("phone")
      let pad = try await Device("pad", world)
      let body = #"{"modelHash":"\#(ModelIndex(Self.renamed).modelHash)"}"#
      #expect(try await world.send(world.request("PUT", "stores/pad"), body).status == 200)
      try await world.export("phone", Edit.insertTag("T2", "sea"))
      try await pad.pull()
      try await world.export(
        "pad", #"{"changeType":"update","entity":"Tag","objectID":"T2","attributes":{"label":"lake"}}"#)
      // Devices with the earlier model see two of a name; the others see a lake and a sea.
      try await world.export("phone", Edit.insertTag("T1", "sea"))
      #expect(try await world.redirect(of: "T2") == nil)
      #expect(try await world.tags() == ["T1=sea", "T2=sea"])
      try await world.export("phone", Edit.insertTag("T3", "sea"))
      #expect(try await world.redirect(of: "T3")?.survivor == "T1")
      // The device with the later model makes one that the rule does not compare.
      try await world.export(
        "pad", #"{"changeType":"insert","entity":"Tag","objectID":"T4","attributes":{"label":"sea"}}"#)
      #expect(try await world.redirect(of: "T4") == nil)
    }
  }

  @Test func `a receipt for a large value under its present name is made of the asset under the former one`() {
    let asset = Asset(hash: Array(repeating: 7, count: 32), byteCount: 9)
    let stamp = Stamp(timestamp: 1, userRecordName: "_alice")
    let record = Record(
      recordName: "T", recordType: "CD_Tag",
      fields: [ReservedName.entityName: .string("Tag"), "CD_name_ckAsset": .asset(asset)], created: stamp,
      modified: stamp)
    let known = [PhotoModel.model, Self.renamed]
    let schema = EnvironmentSchema(
      version: 1, schema: .initial,
      models: Dictionary(known.map { (ModelIndex($0).modelHash, $0) }, uniquingKeysWith: { first, _ in first }))
    #expect(schema.asset(in: "CD_label_ckAsset", of: record) == asset)
    #expect(schema.asset(in: "CD_name_ckAsset", of: record) == asset)
    #expect(schema.asset(in: "CD_other_ckAsset", of: record) == nil)
    #expect(schema.asset(in: ReservedName.entityName, of: record) == nil)
  }
}
