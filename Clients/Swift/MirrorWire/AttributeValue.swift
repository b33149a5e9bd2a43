// Values of attributes and relationships as the object plane writes them in JSON.

/// The value of an attribute. Dates, UUIDs, URIs, decimal numbers and base64 are strings: the attribute's type tells
/// them apart.
public indirect enum AttributeValue: Hashable, Sendable {
  case null
  case boolean(Bool)
  case integer(Int64)
  case double(Double)
  case string(String)
  case composite([String: AttributeValue])
  case asset(AssetReference)
}

/// Content that lies beside its record.
public struct AssetReference: Hashable, Sendable, Codable {
  /// Base64 of a byte 1 and the first 20 bytes of the content's SHA-256.
  public var fileChecksum: String
  /// Bytes.
  public var size: Int64
  /// Where the content is for 15 minutes; an import has it.
  public var downloadURL: String?
  /// The proof of an upload, for 24 hours; a save has it.
  public var receipt: String?

  public init(fileChecksum: String, size: Int64, downloadURL: String? = nil, receipt: String? = nil) {
    self.fileChecksum = fileChecksum
    self.size = size
    self.downloadURL = downloadURL
    self.receipt = receipt
  }
}

extension AttributeValue: Codable {
  private struct AssetMember: Codable { let asset: AssetReference }

  public init(from decoder: any Decoder) throws {
    let container = try decoder.singleValueContainer()
    // Strings come first because they are frequent, and a failed attempt is slow.
    if container.decodeNil() {
      self = .null
    } else if let text = try? container.decode(String.self) {
      self = .string(text)
    } else if let number = try? container.decode(Int64.self) {
      self = .integer(number)
    } else if let number = try? container.decode(Double.self) {
      self = .double(number)
    } else if let flag = try? container.decode(Bool.self) {
      self = .boolean(flag)
    } else if let member = try? container.decode(AssetMember.self) {
      self = .asset(member.asset)
    } else {
      self = .composite(try container.decode([String: AttributeValue].self))
    }
  }

  public func encode(to encoder: any Encoder) throws {
    var container = encoder.singleValueContainer()
    switch self {
    case .null: try container.encodeNil()
    case .boolean(let flag): try container.encode(flag)
    case .integer(let number): try container.encode(number)
    case .double(let number): try container.encode(number)
    case .string(let text): try container.encode(text)
    case .composite(let elements): try container.encode(elements)
    case .asset(let asset): try container.encode(AssetMember(asset: asset))
    }
  }
}

/// The value of a relationship in a save, or of an object that was read.
public enum RelationshipValue: Hashable, Sendable {
  case toOne(String?)
  /// The whole set.
  case toMany([String])
  /// Pairs that are made and ended.
  case toManyEdits(add: [String], remove: [String])
}

extension RelationshipValue: Codable {
  private struct Edits: Codable {
    let add: [String]?
    let remove: [String]?
  }

  public init(from decoder: any Decoder) throws {
    let container = try decoder.singleValueContainer()
    if container.decodeNil() {
      self = .toOne(nil)
    } else if let target = try? container.decode(String.self) {
      self = .toOne(target)
    } else if let targets = try? container.decode([String].self) {
      self = .toMany(targets)
    } else {
      let edits = try container.decode(Edits.self)
      self = .toManyEdits(add: edits.add ?? [], remove: edits.remove ?? [])
    }
  }

  public func encode(to encoder: any Encoder) throws {
    var container = encoder.singleValueContainer()
    switch self {
    case .toOne(let target): try container.encode(target)
    case .toMany(let targets): try container.encode(targets)
    case .toManyEdits(let add, let remove):
      try container.encode(Edits(add: add.isEmpty ? nil : add, remove: remove.isEmpty ? nil : remove))
    }
  }
}
