// The recovery table, one test case for each cell; policies, reasons, and the effects of a model upgrade.

import ObjectModel
import Records
import Testing

@testable import Mirroring

private let cells: [(RecoverySignal, own: RecoveryStep, shared: RecoveryStep)] = [
  (.zoneNotFound, .recover(RecoveryAction(rawValue: 298)), .recover(RecoveryAction(rawValue: 9))),
  (.identityLost, .recover(RecoveryAction(rawValue: 298)), .recover(RecoveryAction(rawValue: 9))),
  (.zoneTokenExpired, .recover(RecoveryAction(rawValue: 298)), .recover(RecoveryAction(rawValue: 298))),
  (.databaseTokenExpired, .recover(RecoveryAction(rawValue: 294)), .recover(RecoveryAction(rawValue: 294))),
  (.userDeletedZone, .recover(RecoveryAction(rawValue: 9)), .recover(RecoveryAction(rawValue: 9))),
  (.zoneDeleted, .recover(RecoveryAction(rawValue: 298)), .recover(RecoveryAction(rawValue: 299))),
  (.zonePurged, .recover(RecoveryAction(rawValue: 9)), .recover(RecoveryAction(rawValue: 9))),
  (.encryptedDataReset, .recover(RecoveryAction(rawValue: 298)), .recover(RecoveryAction(rawValue: 9))),
  (.historyExpired, .recover(RecoveryAction(rawValue: 37)), .recover(RecoveryAction(rawValue: 37))),
  (.accountChanged, .changeAccount, .changeAccount), (.transient, .retry, .retry), (.limitExceeded, .shrink, .shrink),
  (.invalidRecord, .holdBack, .holdBack), (.quotaExceeded, .holdBack, .holdBack), (.deletedAlready, .forget, .forget),
  (.shareNotFound, .rebuildShare, .forget), (.shareChanged, .adoptShare, .adoptShare),
  (.rejectedInPublic, .recover(RecoveryAction(rawValue: 8)), .forget),
]

@Suite struct RecoveryTests {
  @Test(arguments: cells) func `each cell of the recovery table`(
    _ signal: RecoverySignal, _ own: RecoveryStep, _ shared: RecoveryStep
  ) {
    #expect(RecoveryTable.step(for: signal, in: .own) == own)
    #expect(RecoveryTable.step(for: signal, in: .shared) == shared)
  }

  @Test func `every signal has its cells`() {
    #expect(cells.map(\.0) == RecoverySignal.allCases)
  }

  @Test
  func
    `T-R01 T-R02 T-R03 what becomes of a zone's objects follows from the table unless the client asked for something`()
  {
    func standard(_ zone: ZoneOwnership) -> [ZonePolicy] {
      ZoneEnd.allCases.map { ZonePolicy.standard(for: $0, in: zone) }
    }
    #expect(standard(.own) == [.keepAndReupload, .delete, .keepAndReupload])
    #expect(standard(.shared) == [.delete, .delete, .delete])
    #expect(ZonePolicy.allCases.map(\.recovery.rawValue) == [9, 0, 298])
    #expect(ZonePolicy.allCases.map { ZonePolicy(name: $0.name) } == ZonePolicy.allCases)
    #expect(
      ZonePolicy(decision: "pause") == nil && ZonePolicy(decision: "reupload") == .keepAndReupload
        && ZonePolicy(decision: "delete") == .delete)
  }

  @Test func `reset reasons are spelled as Core Data spells them, and others are taken for no reason`() {
    #expect(ResetReason.allCases.map(\.rawValue) == Array(0...7))
    #expect(
      ResetReason(name: "HistoryExpired") == .historyExpired
        && ResetReason(name: "ServerChangeTokenExpired").rawValue == 7)
    #expect(ResetReason(name: "lunch") == .other && ResetReason(name: nil) == .other)
    #expect([0, 1, 2, 3].map { ResetBreaker.allows(openResetCount: $0) } == [true, true, false, false])
  }
}

@Suite struct ModelUpgradeTests {
  private static let tag = Entity(name: "Tag", attributes: [Attribute(name: "name", type: .string)])
  private static let photo = Entity(name: "Photo", attributes: [Attribute(name: "title", type: .string)])
  private static let stamp = Stamp(timestamp: 0, userRecordName: "_a", deviceID: "d")

  private static func upgrade(
    from earlier: [Entity]?, to entities: [Entity], configurations: [String: [String]] = [:],
    _ before: Set<String>? = nil, _ names: Set<String>? = nil
  ) -> ModelUpgrade {
    ModelUpgrade(
      from: earlier.map { (ModelIndex(ManagedObjectModel(entities: $0)), before) },
      to: ModelIndex(ManagedObjectModel(entities: entities, configurations: configurations)), entityNames: names)
  }

  private static func record(_ entity: String) -> Record {
    Record(
      recordName: "r", recordType: "CD_\(entity)", fields: ["CD_entityName": .string(entity)], created: stamp,
      modified: stamp)
  }

  @Test func `T-I06 only entities that gained something are sent again`() {
    var richer = Self.photo
    richer.attributes.append(Attribute(name: "place", type: .string))
    let upgrade = Self.upgrade(from: [Self.tag, Self.photo], to: [Self.tag, richer])
    #expect(upgrade.concerns(Self.record("Photo")) && !upgrade.concerns(Self.record("Tag")) && !upgrade.isEmpty)
    #expect(
      Self.upgrade(from: [Self.tag, richer], to: [Self.tag, Self.photo]).isEmpty,
      "what a model reads no more was delivered")
    #expect(Self.upgrade(from: [Self.tag], to: [Self.tag]).isEmpty)
  }

  @Test
  func
    `T-I03 an entity that is new or comes with a configuration is sent, and without the old model everything is`()
  {
    let added = Self.upgrade(from: [Self.tag], to: [Self.tag, Self.photo])
    #expect(added.concerns(Self.record("Photo")) && !added.concerns(Self.record("Tag")))
    let widened = Self.upgrade(from: [Self.tag, Self.photo], to: [Self.tag, Self.photo], ["Tag"], nil)
    #expect(widened.concerns(Self.record("Photo")) && !widened.concerns(Self.record("Tag")))
    let unknown = Self.upgrade(from: nil, to: [Self.tag, Self.photo])
    #expect(unknown.concerns(Self.record("Photo")) && unknown.concerns(Self.record("Tag")))
    #expect(!unknown.concerns(Self.record("Other")), "of a type that the model does not know nothing is told")
    let narrow = Self.upgrade(from: nil, to: [Self.tag, Self.photo], nil, ["Tag"])
    #expect(!narrow.concerns(Self.record("Photo")))
  }

  @Test func `an attribute of another type is read anew`() {
    var changed = Self.tag
    changed.attributes = [Attribute(name: "name", type: .integer64)]
    #expect(Self.upgrade(from: [Self.tag], to: [changed]).concerns(Self.record("Tag")))
  }

  @Test func `links of a relationship that is new are sent, and no others`() {
    func entities(withTags: Bool) -> [Entity] {
      var (photo, tag) = (Self.photo, Self.tag)
      photo.relationships = [
        Relationship(
          name: "albums", destinationName: "Tag", inverseName: "inAlbums", inverseEntityName: "Tag", isToMany: true)
      ]
      tag.relationships = [
        Relationship(
          name: "inAlbums", destinationName: "Photo", inverseName: "albums", inverseEntityName: "Photo", isToMany: true)
      ]
      guard withTags else { return [photo, tag] }
      photo.relationships.append(
        Relationship(
          name: "tags", destinationName: "Tag", inverseName: "photos", inverseEntityName: "Tag", isToMany: true))
      tag.relationships.append(
        Relationship(
          name: "photos", destinationName: "Photo", inverseName: "tags", inverseEntityName: "Photo", isToMany: true))
      return [photo, tag]
    }
    func link(_ relationships: String) -> Record {
      Record(
        recordName: "l", recordType: "CDMR",
        fields: [
          "CD_entityNames": .string("Photo:Tag"), "CD_relationships": .string(relationships),
          "CD_recordNames": .string("p:t"),
        ], created: Self.stamp,
        modified: Self.stamp)
    }
    let upgrade = Self.upgrade(from: entities(withTags: false), to: entities(withTags: true))
    #expect(
      upgrade.concerns(link("tags:photos")) && !upgrade.concerns(link("albums:inAlbums"))
        && !upgrade.concerns(Self.record("Photo")))
    #expect(Self.upgrade(from: entities(withTags: true), to: entities(withTags: true)).isEmpty)
    #expect(Self.upgrade(from: nil, to: entities(withTags: false)).concerns(link("albums:inAlbums")))
  }
}
