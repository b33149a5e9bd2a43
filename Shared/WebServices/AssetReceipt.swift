// A client's proof that it uploaded an asset's content, as one user of one container.

import Crypto
public import JSON
public import Records

/// The user for whom content is uploaded and used.
public struct AssetUser: Hashable, Sendable {
  public let container: ContainerID
  public let environment: Environment
  public let userRecordName: String

  public init(container: ContainerID, environment: Environment, userRecordName: String) {
    self.container = container
    self.environment = environment
    self.userRecordName = userRecordName
  }
}

/// Signed text that names content; valid for one user in one container and environment until it expires.
public struct AssetReceipt: Hashable, Sendable {
  public let asset: Asset
  /// Seconds since 1970; the receipt is refused from then on.
  public let expiry: Int64

  public init(asset: Asset, expiry: Int64) {
    self.asset = asset
    self.expiry = expiry
  }

  /// Only the signature covers the user; the receipt's text does not name them.
  private static func purpose(_ user: AssetUser) -> [UInt8] {
    var bytes = Array("aquifer asset receipt".utf8)
    for part in [user.container.rawValue, user.environment.rawValue, user.userRecordName] {
      SignedText.append(part, to: &bytes)
    }
    return bytes
  }

  public func text(for user: AssetUser, signedWith key: [UInt8]) -> String {
    SignedText.make(
      of: [Hex.encode(asset.hash), String(asset.byteCount), String(expiry)], for: Self.purpose(user), signedWith: key)
  }

  /// - Parameter now: seconds since 1970.
  /// - Returns: nil if the text was not made with this key for this user, was altered, or has expired.
  public init?(text: String, of user: AssetUser, signedWith key: [UInt8], now: Int64) {
    guard let parts = SignedText.parts(of: text, for: Self.purpose(user), verifiedWith: key), parts.count == 3,
      let hash = Hex.decode(parts[0]),
      hash.count == SHA256.byteCount, let byteCount = Int64(parts[1]), let expiry = Int64(parts[2]), now < expiry
    else { return nil }
    self.init(asset: Asset(hash: hash, byteCount: byteCount), expiry: expiry)
  }

  /// The asset dictionary of an upload's answer (docs/protocol/record-plane.md#assets), which is a field's value.
  public func write(for user: AssetUser, signedWith key: [UInt8], to writer: inout JSONWriter) {
    writer.beginObject()
    writer.member("fileChecksum", asset.fileChecksum)
    writer.member("size", asset.byteCount)
    writer.member("receipt", text(for: user, signedWith: key))
    // Apple's encryption uses these two keys; here they exist because clients expect them.
    writer.member("wrappingKey", Base64.encode(Array(asset.hash.suffix(16))))
    writer.member("referenceChecksum", asset.fileChecksum)
    writer.endObject()
  }
}

/// Reads asset dictionaries of requests.
public struct AssetReader: Sendable {
  private let user: AssetUser
  private let key: [UInt8]
  /// Seconds since 1970.
  private let now: Int64

  public init(user: AssetUser, key: [UInt8], now: Int64) {
    self.user = user
    self.key = key
    self.now = now
  }

  static let noReceipt = "the asset has no receipt of this server: upload its content first"

  /// The asset that a dictionary names: by its receipt, or by the checksum that an answer showed (`Asset.isShown`).
  func asset(_ json: JSONValue) throws(RecordError) -> Asset {
    guard json.kind == .object else {
      throw RecordError(.badRequest, "\(FieldType.asset.wireName) must be the object that the upload answered")
    }
    if let text = try json.optionalString("receipt") {
      guard let receipt = AssetReceipt(text: text, of: user, signedWith: key, now: now) else {
        throw RecordError(
          .badRequest, "the asset's receipt is not this user's, or has expired: upload its content again")
      }
      return receipt.asset
    }
    guard let checksum = json.member("fileChecksum")?.base64,
      let shown = Asset(shownChecksum: checksum, byteCount: try json.optionalInteger("size"))
    else {
      throw RecordError(.badRequest, Self.noReceipt)
    }
    return shown
  }
}

extension Asset {
  private static let shownByteCount = 20
  private static let shownMark: UInt8 = 1

  /// The checksum that clients see, of Apple's shape (base64 of 0x01 and 20 bytes); opaque to them.
  public var fileChecksum: String { Base64.encode([Self.shownMark] + hash.prefix(Self.shownByteCount)) }

  /// Reads the checksum of an answer. It is shorter than the hash, so it can only name an asset that the record has
  /// already.
  fileprivate init?(shownChecksum: [UInt8], byteCount: Int64?) {
    guard shownChecksum.count == Self.shownByteCount + 1, shownChecksum[0] == Self.shownMark, let byteCount else {
      return nil
    }
    self.init(hash: Array(shownChecksum.dropFirst()), byteCount: byteCount)
  }

  /// True for a value of an answer's checksum, which is no complete asset.
  var isShown: Bool { hash.count == Self.shownByteCount }

  fileprivate func shows(_ asset: Asset) -> Bool {
    isShown && asset.byteCount == byteCount && asset.hash.starts(with: hash)
  }
}

extension FieldValue {
  /// True if `resolvingShownAssets` has anything to resolve.
  var hasShownAsset: Bool {
    switch self {
    case .asset(let asset): asset.isShown
    case .list(element: .asset, let values): values.contains { $0.hasShownAsset }
    default: false
    }
  }

  /// The value, with each shown checksum replaced by the asset that the record has in this field.
  /// - Throws: `BAD_REQUEST` if the field has no such asset.
  func resolvingShownAssets(in earlier: FieldValue?) throws(RecordError) -> FieldValue {
    switch self {
    case .asset(let asset) where asset.isShown: return .asset(try Self.resolved(asset, in: earlier))
    case .list(element: .asset, let values):
      return .list(
        element: .asset, try values.map { value throws(RecordError) in try value.resolvingShownAssets(in: earlier) })
    default: return self
    }
  }

  private static func resolved(_ shown: Asset, in earlier: FieldValue?) throws(RecordError) -> Asset {
    let present: [FieldValue]
    switch earlier {
    case .list(element: .asset, let values)?: present = values
    case let value?: present = [value]
    case nil: present = []
    }
    for case .asset(let asset) in present where shown.shows(asset) { return asset }
    throw RecordError(.badRequest, AssetReader.noReceipt)
  }
}
