// Reads pages from the object plane's JSON.

extension ImportPage {
  /// - Throws: `WireError` with the place.
  public init(json: [UInt8]) throws(WireError) {
    self = try JSONReader.read(json) { reader throws(WireError) in try ImportPage(&reader) }
  }

  private init(_ reader: inout JSONReader) throws(WireError) {
    var page = ImportPage(changes: [], importToken: "", isInitialImportDone: false)
    var hasToken = false
    try reader.object { key, reader throws(WireError) in
      switch key {
      case "changes":
        try reader.array { reader throws(WireError) in
          if let change = try ImportedChange(&reader) { page.changes.append(change) }
        }
      case "importToken":
        page.importToken = try reader.string()
        hasToken = true
      case "moreComing": page.moreComing = try reader.bool()
      case "caughtUp": page.caughtUp = try reader.bool()
      case "progress": page.progress = try Progress(&reader)
      case "initialImport":
        try reader.object { _, reader throws(WireError) in page.isInitialImportDone = try reader.bool() }
      case "reset": page.reset = try Reset(&reader)
      case "quarantined":
        try reader.array { reader throws(WireError) in page.quarantined.append(try ObjectProblem(&reader)) }
      case "openConflicts": page.openConflictCount = Int(clamping: max(try reader.integer(), 0))
      default: try reader.skip()
      }
    }
    guard hasToken else { throw WireError("the page has no importToken") }
    self = page
  }
}

extension ImportPage.Progress {
  fileprivate init(_ reader: inout JSONReader) throws(WireError) {
    var (done, total): (Int64, Int64) = (0, 0)
    try reader.object { key, reader throws(WireError) in
      switch key {
      case "done": done = try reader.integer()
      case "total": total = try reader.integer()
      default: try reader.skip()
      }
    }
    self.init(done: done, total: total)
  }
}

extension ImportPage.Reset {
  fileprivate init(_ reader: inout JSONReader) throws(WireError) {
    var (reason, isDone) = ("", false)
    try reader.object { key, reader throws(WireError) in
      switch key {
      case "reason": reason = try reader.string()
      case "done": isDone = try reader.bool()
      default: try reader.skip()
      }
    }
    self.init(reason: reason, done: isDone)
  }
}

extension ObjectProblem {
  fileprivate init(_ reader: inout JSONReader) throws(WireError) {
    var texts: [String: String] = [:]
    var numbers: [String: Int64] = [:]
    try reader.object { key, reader throws(WireError) in
      switch try reader.value() {
      case .string(let text): texts[key] = text
      case .integer(let number): numbers[key] = number
      default: break
      }
    }
    guard let objectID = texts["objectID"] else { throw reader.problem("a problem has no objectID") }
    self.init(
      objectID: objectID, entity: texts["entity"] ?? "", ckErrorCode: Int(clamping: numbers["ckErrorCode"] ?? 0),
      serverErrorCode: texts["serverErrorCode"] ?? "",
      cocoaErrorCode: numbers["cocoaErrorCode"].map { Int(clamping: $0) }, reason: texts["reason"] ?? "")
  }
}

/// The members that changes of any type have.
private struct ChangeMembers {
  var changeType = ""
  var entity = ""
  var objectID = ""
  var zoneID: ZoneID?
  var attributes: [String: AttributeValue] = [:]
  var relationships: [String: String?] = [:]
  var recordChangeTag = ""
  var modified: Stamp?
  var redelivered = false
  var relationship = ""
  var targetEntity = ""
  var targetID = ""
  var from: ZoneID?
  var to: ZoneID?
  var reason = ""
  var action = ""
  var recovery: Int?

  init(_ reader: inout JSONReader) throws(WireError) {
    var members = Self()
    try reader.object { key, reader throws(WireError) in try members.read(key, &reader) }
    self = members
  }

  private init() {}

  private mutating func read(_ key: String, _ reader: inout JSONReader) throws(WireError) {
    switch key {
    case "changeType": changeType = try reader.string()
    case "entity": entity = try reader.string()
    case "objectID": objectID = try reader.string()
    case "zoneID": zoneID = try ZoneID(&reader)
    case "attributes":
      attributes = try reader.members { reader throws(WireError) in try reader.value() }
    case "relationships":
      relationships = try reader.members { reader throws(WireError) in try reader.optionalString() }
    case "recordChangeTag": recordChangeTag = try reader.string()
    case "modified": modified = try Stamp(&reader)
    case "redelivered": redelivered = try reader.bool()
    case "relationship": relationship = try reader.string()
    case "target":
      let target = try reader.members { reader throws(WireError) in try reader.string() }
      (targetEntity, targetID) = (target["entity"] ?? "", target["objectID"] ?? "")
    case "from": from = try ZoneID(&reader)
    case "to": to = try ZoneID(&reader)
    case "reason": reason = try reader.string()
    case "action": action = try reader.string()
    case "recovery": recovery = Int(clamping: try reader.integer())
    default: try reader.skip()
    }
  }
}

extension ImportedChange {
  /// - Returns: nil for a type that a later server may add.
  fileprivate init?(_ reader: inout JSONReader) throws(WireError) {
    let members = try ChangeMembers(&reader)
    func zone(_ zone: ZoneID?) throws(WireError) -> ZoneID {
      guard let zone else { throw reader.problem("a change has no zone") }
      return zone
    }
    switch members.changeType {
    case "save":
      self = .save(
        ImportedObject(
          entity: members.entity, objectID: members.objectID, zoneID: try zone(members.zoneID),
          attributes: members.attributes, relationships: members.relationships,
          recordChangeTag: members.recordChangeTag, modified: members.modified, redelivered: members.redelivered))
    case "delete":
      self = .delete(entity: members.entity, objectID: members.objectID, zoneID: try zone(members.zoneID))
    case "link": self = .link(Link(members))
    case "unlink": self = .unlink(Link(members))
    case "move": self = .move(objectID: members.objectID, from: try zone(members.from), to: try zone(members.to))
    case "zone":
      guard let action = EndedZone.Action(rawValue: members.action) else {
        throw reader.problem("an ended zone has no known action")
      }
      self = .zone(
        EndedZone(
          zoneID: try zone(members.zoneID), reason: members.reason, action: action, recovery: members.recovery))
    case "share": self = .share(try zone(members.zoneID))
    default: return nil
    }
  }
}

extension Link {
  fileprivate init(_ members: ChangeMembers) {
    self.init(
      relationship: members.relationship, entity: members.entity, objectID: members.objectID,
      targetEntity: members.targetEntity, targetID: members.targetID)
  }
}

extension ZoneID {
  fileprivate init(_ reader: inout JSONReader) throws(WireError) {
    var (name, owner): (String, String?) = ("", nil)
    try reader.object { key, reader throws(WireError) in
      switch key {
      case "zoneName": name = try reader.string()
      case "ownerRecordName": owner = try reader.optionalString()
      default: try reader.skip()
      }
    }
    self.init(zoneName: name, ownerRecordName: owner)
  }
}

extension Stamp {
  fileprivate init(_ reader: inout JSONReader) throws(WireError) {
    var (timestamp, user, device): (Int64, String, String?) = (0, "", nil)
    try reader.object { key, reader throws(WireError) in
      switch key {
      case "timestamp": timestamp = try reader.integer()
      case "userRecordName": user = try reader.string()
      case "deviceID": device = try reader.optionalString()
      default: try reader.skip()
      }
    }
    self.init(timestamp: timestamp, userRecordName: user, deviceID: device)
  }
}

extension JSONReader {
  fileprivate mutating func members<Value>(
    _ value: (inout JSONReader) throws(WireError) -> Value
  ) throws(WireError) -> [String: Value] {
    var members: [String: Value] = [:]
    try object { key, reader throws(WireError) in members.updateValue(try value(&reader), forKey: key) }
    return members
  }
}
