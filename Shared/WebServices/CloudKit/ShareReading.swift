// The share in a request's record dictionary (docs/protocol/record-plane.md#sharing).

import JSON
public import Records
public import Sharing

/// The members of a share's dictionary that other records do not have.
public struct ShareRequest: Hashable, Sendable {
  /// The record to share, together with the hierarchy below it.
  public struct Root: Hashable, Sendable {
    public let recordName: String
    /// nil if the request has none, or one that this server cannot have made.
    public let recordChangeTag: RecordChangeTag?

    public init(recordName: String, recordChangeTag: RecordChangeTag?) {
      self.recordName = recordName
      self.recordChangeTag = recordChangeTag
    }
  }

  /// nil if the request has none.
  public var root: Root?
  public var patch: SharePatch

  public init(root: Root? = nil, patch: SharePatch = SharePatch()) {
    self.root = root
    self.patch = patch
  }
}

extension ReservedName {
  /// The record type of shares, and its misspelling in Apple's text.
  static let shareRecordTypes: Set<String> = [shareRecordType, "cloudKit.share"]
}

/// The fields of shares: they belong to the protocol, and so to every schema.
public enum ShareFields {
  static let declarations: [String: SchemaIndex.FieldDeclaration] = [
    ReservedName.shareTitle: SchemaIndex.FieldDeclaration(type: .string, isEncrypted: false),
    ReservedName.shareType: SchemaIndex.FieldDeclaration(type: .string, isEncrypted: false),
    ReservedName.shareThumbnail: SchemaIndex.FieldDeclaration(type: .bytes, isEncrypted: false),
  ]
}

/// Reads the parts of requests about shares; it knows both vocabularies for roles and acceptance.
enum ShareReader {
  static func request(_ record: JSONValue) throws(RecordError) -> ShareRequest {
    var request = ShareRequest()
    if let root = try record.optionalObject("forRecord") {
      let name = try root.requiredString("recordName")
      if let problem = RecordName.problem(name, kind: "forRecord.recordName") {
        throw RecordError(.badRequest, problem)
      }
      request.root = ShareRequest.Root(
        recordName: name, recordChangeTag: try root.optionalString("recordChangeTag").flatMap { RecordChangeTag($0) })
    }
    request.patch.publicPermission = try permission(record, "publicPermission")
    request.patch.allowsAccessRequests = try record.optionalBool("allowsAccessRequests")
    if record.member("participants") != nil {
      // The list may include the owner and participants to remove.
      request.patch.participants = try record.requiredList(
        "participants", limit: 2 * Limit.participantsPerShare + 1, read: entry)
    }
    if record.member("requesters") != nil {
      request.patch.requesters = try record.requiredList("requesters", limit: Limit.requestersPerShare, read: person)
    }
    if record.member("blocked") != nil {
      request.patch.blocked = try record.requiredList("blocked", limit: Limit.blockedPerShare, read: person)
    }
    return request
  }

  private static func entry(_ json: JSONValue) throws(RecordError) -> SharePatch.Entry {
    let acceptance = try json.optionalString("acceptanceStatus")
    return SharePatch.Entry(
      participantID: try json.optionalString("participantId"),
      identity: try identity(try json.optionalObject("userIdentity")), role: try role(json),
      permission: try permission(json, "permission"), isRemoved: acceptance == "REMOVED")
  }

  private static func role(_ json: JSONValue) throws(RecordError) -> ParticipantRole? {
    switch try json.optionalString("type") {
    case nil, "UNKNOWN"?: return nil
    case "OWNER"?: return .owner
    case "ADMINISTRATOR"?: return .administrator
    case "USER"?, "PRIVATE_USER"?: return .privateUser
    case "PUBLIC_USER"?: return .publicUser
    default: throw RecordError(.badRequest, "type must be OWNER, ADMINISTRATOR, USER or PUBLIC_USER")
    }
  }

  private static func permission(_ json: JSONValue, _ key: String) throws(RecordError) -> SharePermission? {
    switch try json.optionalString(key) {
    case nil, "UNKNOWN"?: return nil
    case "NONE"?: return SharePermission.none
    case "READ_ONLY"?: return .readOnly
    case "READ_WRITE"?: return .readWrite
    default: throw RecordError(.badRequest, "\(key) must be NONE, READ_ONLY or READ_WRITE")
    }
  }

  /// Reads an element of `requesters` or `blocked`: an identity, or an object that has one.
  private static func person(_ json: JSONValue) throws(RecordError) -> UserIdentity {
    let identity = try identity(try json.optionalObject("userIdentity") ?? json)
    guard !identity.isNobody else {
      throw RecordError(.badRequest, "a userIdentity must have a userRecordName or lookupInfo")
    }
    return identity
  }

  /// Ignores personal names: only the directory provides them.
  private static func identity(_ json: JSONValue?) throws(RecordError) -> UserIdentity {
    guard let json else { return UserIdentity() }
    var identity = UserIdentity(userRecordName: try json.optionalString("userRecordName"))
    guard let lookup = try json.optionalObject("lookupInfo") else { return identity }
    if let address = try lookup.optionalString("emailAddress") {
      guard let info = LookupInfo(emailAddress: address) else {
        throw RecordError(.badRequest, "lookupInfo.emailAddress is not an e-mail address")
      }
      identity.lookupInfo = info
    } else if let number = try lookup.optionalString("phoneNumber") {
      guard let info = LookupInfo(phoneNumber: number) else {
        throw RecordError(.badRequest, "lookupInfo.phoneNumber is not a telephone number")
      }
      identity.lookupInfo = info
    } else if let name = try lookup.optionalString("userRecordName") {
      identity.lookupInfo = .recordName(name)
    }
    return identity
  }
}
