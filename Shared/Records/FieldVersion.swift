// Who last said something of a field, and when: what policies of conflicts compare. Only records of entities that declare a policy have any.

/// The known edits of one field, device by device (C1).
public struct FieldVersion: Hashable, Sendable {
  /// The last edit of one device.
  public struct Edit: Hashable, Sendable {
    public let device: String
    /// Milliseconds since 1970, never less than what the device had seen before (`EditTime` of Mirroring).
    public let time: Int64
    /// What it said, where that is not what the field holds or held afterwards.
    public var sent: FieldValue?

    public init(device: String, time: Int64, sent: FieldValue? = nil) {
      self.device = device
      self.time = time
      self.sent = sent
    }

    /// The order of edits: by time, and by device where that is the same, so that nobody disagrees (T-C09).
    public func precedes(_ other: Edit) -> Bool { time == other.time ? device < other.device : time < other.time }
  }

  /// The last edit of an element of a set.
  public struct Element: Hashable, Sendable {
    /// The element as JSON.
    public let text: String
    public let edit: Edit
    /// Whether that edit put it in, or took it out.
    public let isPresent: Bool

    public init(text: String, edit: Edit, isPresent: Bool) {
      self.text = text
      self.edit = edit
      self.isPresent = isPresent
    }
  }

  public let field: String
  /// One a device; the first is the one that the field's value comes from.
  public var edits: [Edit]
  /// Of a set, ascending by text; elements that nobody touched since the policy was declared have none.
  public var elements: [Element]

  public init(field: String, edits: [Edit] = [], elements: [Element] = []) {
    self.field = field
    self.edits = edits
    self.elements = elements
  }

  public func edit(of device: String) -> Edit? { edits.first { $0.device == device } }
}

extension Record {
  public func version(of field: String) -> FieldVersion? { versions.first { $0.field == field } }

  /// Sets the version of its field, in its place.
  public mutating func set(_ version: FieldVersion) {
    if let index = versions.firstIndex(where: { $0.field >= version.field }) {
      if versions[index].field == version.field { versions[index] = version } else { versions.insert(version, at: index) }
    } else {
      versions.append(version)
    }
  }

  /// What is known of fields that were changed since `earlier` by somebody who knows nothing of versions: his own clock is all there is.
  public mutating func renewVersions(since earlier: Record) {
    for index in versions.indices {
      let version = versions[index]
      guard fields[version.field] != earlier.fields[version.field], version == earlier.version(of: version.field) else { continue }
      versions[index] = FieldVersion(field: version.field, edits: [FieldVersion.Edit(device: modified.deviceID, time: modified.timestamp)])
    }
  }
}
