// Shares and their participants as values: an app changes a copy and persists it.

import MirrorWire
package import ReplicaStore

/// A zone, and whose it is.
public struct Zone: Hashable, Sendable, Codable {
  public let zoneName: String
  public let ownerRecordName: String

  public init(zoneName: String, ownerRecordName: String) {
    self.zoneName = zoneName
    self.ownerRecordName = ownerRecordName
  }
}

public enum ParticipantPermission: String, Sendable {
  case none = "NONE", readOnly = "READ_ONLY", readWrite = "READ_WRITE"
}

/// One way to name a person.
public enum LookupInfo: Hashable, Sendable {
  case emailAddress(String), phoneNumber(String), userRecordName(String)
}

/// Somebody whom a share is for.
public struct Participant: Hashable, Sendable, Identifiable {
  /// Of a person who is not in the share yet it is their record name or address.
  public let id: String
  public let userRecordName: String?
  public let name: String?
  /// `INVITED`, `ACCEPTED` or `REMOVED`.
  public let acceptance: String
  /// `OWNER`, `ADMINISTRATOR`, `USER` or `PUBLIC_USER`.
  public let role: String
  public var permission: ParticipantPermission
  let identity: ParticipantRecord.Identity
  let isListed: Bool
}

/// A share of a zone (`CKShare`). Changes count once the share is persisted.
public struct Share: Sendable, Identifiable {
  public let zone: Zone
  public let owner: Participant
  public let currentUserParticipant: Participant?
  /// The address to give to others.
  public let url: String
  public var title: String?
  public var publicPermission: ParticipantPermission
  public var participants: [Participant]
  /// As the server answered it: what changes are compared with.
  let record: ShareRecord

  public var id: Zone { zone }

  public mutating func addParticipant(_ participant: Participant) {
    participants.removeAll { $0.id == participant.id }
    participants.append(participant)
  }

  public mutating func removeParticipant(_ id: Participant.ID) { participants.removeAll { $0.id == id } }
}

extension Participant {
  init(_ record: ParticipantRecord) {
    self.init(
      record.userIdentity, id: record.participantId ?? "", acceptance: record.acceptanceStatus ?? "INVITED",
      role: record.type, permission: ParticipantPermission(rawValue: record.permission) ?? .none, isListed: true)
  }

  /// Somebody who was looked up, as a participant who may only read.
  init(_ identity: ParticipantRecord.Identity) {
    let info = identity.lookupInfo
    let id = identity.userRecordName ?? info?.emailAddress ?? info?.phoneNumber ?? ""
    self.init(identity, id: id, acceptance: "INVITED", role: "USER", permission: .readOnly, isListed: false)
  }

  private init(
    _ identity: ParticipantRecord.Identity, id: String, acceptance: String, role: String,
    permission: ParticipantPermission, isListed: Bool
  ) {
    let names = [identity.nameComponents?.givenName, identity.nameComponents?.familyName].compactMap(\.self)
    self.id = id
    userRecordName = identity.userRecordName
    name = names.isEmpty ? nil : names.joined(separator: " ")
    self.acceptance = acceptance
    self.role = role
    self.permission = permission
    self.identity = identity
    self.isListed = isListed
  }

  var record: ParticipantRecord {
    ParticipantRecord(
      participantId: isListed ? id : nil, userIdentity: identity, type: role, permission: permission.rawValue)
  }
}

extension Share {
  /// - Parameter server: the gateway's address.
  init(_ record: ShareRecord, server: String) {
    self.record = record
    zone = Zone(zoneName: record.zoneID.zoneName, ownerRecordName: record.zoneID.ownerRecordName ?? "")
    let everybody = record.participants.map(Participant.init)
    owner =
      record.owner.map(Participant.init) ?? everybody.first { $0.role == "OWNER" }
      ?? Participant(ParticipantRecord.Identity(userRecordName: record.zoneID.ownerRecordName))
    currentUserParticipant = record.currentUserParticipant.map(Participant.init)
    url = record.shortGUID.map { "\(server)/share/\($0)" } ?? ""
    title = record.title
    publicPermission = record.publicPermission.flatMap(ParticipantPermission.init) ?? .none
    participants = everybody
  }

  /// The changes that were made to this copy, made to the server's present share.
  func applied(to present: Share) -> Share {
    let base = Share(record, server: "")
    var result = present
    if title != base.title { result.title = title }
    if publicPermission != base.publicPermission { result.publicPermission = publicPermission }
    for participant in participants {
      let former = base.participants.first { $0.id == participant.id }
      if former == nil {
        result.addParticipant(participant)
      } else if former?.permission != participant.permission,
        let place = result.participants.firstIndex(where: { $0.id == participant.id })
      {
        result.participants[place].permission = participant.permission
      }
    }
    for former in base.participants where !participants.contains(where: { $0.id == former.id }) {
      result.removeParticipant(former.id)
    }
    return result
  }
}

extension Share {
  /// The name of a share in its address, `https://SERVER/share/NAME`.
  /// - Throws: `invalid` if the text is no such address.
  package static func shortGUID(ofAddress address: String) throws(StoreError) -> String {
    guard let name = address.firstMatch(of: /\/share\/([0-9A-Za-z]{25})(?:[?#\s]|$)/) else {
      throw .invalid("'\(address)' is not the address of a share")
    }
    return String(name.output.1)
  }
}
