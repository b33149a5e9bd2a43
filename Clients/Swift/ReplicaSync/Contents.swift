// Large values: sent before the save that names them, fetched with their objects or when they are read.

import FoundationEssentials
import MirrorWire
import ReplicaStore

/// Moves contents between a store and the server.
struct Contents: Sendable {
  let store: any MirroredStore
  let plane: ObjectPlane
  let surroundings: Surroundings

  /// A receipt or an address that ends sooner is fetched again.
  static let margin: TimeInterval = 60
  private static let receiptLifetime: TimeInterval = 24 * 3600
  private static let addressLifetime: TimeInterval = 15 * 60
  /// Objects that are asked for a content which the one that is known for it lost.
  private static let holderLimit = 10
  /// Of an answer that refuses a download.
  private static let refusalByteLimit = 1 << 16

  private struct UploadRequest: Encodable {
    struct Token: Encodable {
      let recordType: String
      let recordName: String
      let fieldName: String
    }
    let tokens: [Token]
  }

  private struct UploadAnswer: Decodable {
    struct Token: Decodable { let url: String }
    let tokens: [Token]
  }

  private struct RereferenceRequest: Encodable {
    struct Field: Encodable {
      let recordName: String
      let fieldName: String
    }
    let zoneID: ZoneID
    let assets: [Field]
  }

  private struct RereferenceAnswer: Decodable {
    /// An item without a receipt is an error.
    struct Item: Decodable { let receipt: String? }
    let assets: [Item]
  }

  private struct Uploaded: Decodable { let singleFile: AssetReference }

  /// Sends a content, and keeps its receipt. The receipt is good for any object of this user.
  func upload(_ content: Content) async throws {
    if try await rereference(content) { return }
    // The save that names it is set aside, and the others go on.
    guard let path = content.path else {
      throw SyncFailure.server(
        ServerError(
          status: 404, serverErrorCode: "ASSET_FILE_NOT_FOUND", reason: "a content that is to be sent is not here",
          ckErrorCode: 16))
    }
    let token = UploadRequest.Token(
      recordType: "CD_Content", recordName: content.checksum, fieldName: "CD_content_ckAsset")
    let places: UploadAnswer = try await plane.record("assets/upload", UploadRequest(tokens: [token]))
    guard let place = places.tokens.first else { throw SyncFailure.damaged("the server names no place for a content") }
    let started = surroundings.now()
    let bytes = try Self.file(path)
    let answer = try await plane.upload(bytes, to: place.url)
    guard let uploaded = try? Uploaded(json: answer) else { throw SyncFailure.damaged("an upload has no receipt") }
    try await store.keepReceipt(uploaded.singleFile, for: content.checksum, until: started + Self.receiptLifetime)
  }

  /// Asks for a receipt of a content that another object has on the server; it may not even be here.
  /// - Returns: false: this store knows no such object, or the server gives no receipt.
  private func rereference(_ content: Content) async throws -> Bool {
    guard let owner = try await store.content(content.checksum)?.owner else { return false }
    // A content that is here is sent sooner than it is looked for.
    guard let place = try await place(of: content, owner, asksHolders: content.path == nil) else { return false }
    let field = RereferenceRequest.Field(
      recordName: place.owner.recordName, fieldName: "CD_\(place.attribute)_ckAsset")
    let request = RereferenceRequest(zoneID: place.zoneID, assets: [field])
    let started = surroundings.now()
    let answer: RereferenceAnswer
    do throws(SyncFailure) {
      answer = try await plane.record("assets/rereference", request)
    } catch {
      guard case .server(let refusal) = error, refusal.remedy == .none else { throw error }
      return false
    }
    guard let receipt = answer.assets.first?.receipt else { return false }
    let reference = AssetReference(fileChecksum: place.asset.fileChecksum, size: place.asset.size, receipt: receipt)
    try await store.keepReceipt(reference, for: content.checksum, until: started + Self.receiptLifetime)
    return true
  }

  /// Where the server has a content.
  private struct Place {
    let owner: AnyObjectID
    let zoneID: ZoneID
    let attribute: String
    let asset: AssetReference
  }

  /// - Parameters:
  ///   - owner: the object that is known for the content, which may have lost it.
  ///   - asksHolders: of the others that have it here, too; the server may not have heard of them.
  private func place(of content: Content, _ owner: AnyObjectID, asksHolders: Bool) async throws -> Place? {
    if !owner.recordName.isEmpty, let place = try await place(of: content, at: owner) { return place }
    guard asksHolders else { return nil }
    for holder in try await store.holders(of: content.checksum, limit: Self.holderLimit) where holder != owner {
      if let place = try await place(of: content, at: holder) { return place }
    }
    return nil
  }

  private func place(of content: Content, at owner: AnyObjectID) async throws -> Place? {
    guard let object = try await plane.object(owner.recordName) else { return nil }
    for case (let name, .asset(let asset)) in object.attributes.sorted(by: { $0.key < $1.key })
    where ContentName(fileChecksum: asset.fileChecksum, byteCount: asset.size)?.checksum == content.checksum {
      return Place(owner: owner, zoneID: object.zoneID, attribute: name, asset: asset)
    }
    return nil
  }

  /// Contents of the batch are sent again before it is.
  func forgetReceipts(of batch: ExportBatch) async throws {
    for (fileChecksum, receipt) in batch.receipts {
      guard let name = ContentName(fileChecksum: fileChecksum, byteCount: receipt.size) else { continue }
      try await store.keepReceipt(receipt, for: name.checksum, until: .distantPast)
    }
  }

  /// Fetches a content that is not here; goes on where an earlier attempt ended.
  /// - Returns: false: the server has no such content any more.
  func download(_ checksum: String) async throws -> Bool {
    guard let (content, owner) = try await store.content(checksum) else { return false }
    if content.path != nil { return true }
    var refusal: SyncFailure?
    // Twice: an address may have ended, and a part of an earlier attempt may be of other bytes.
    for address in [keptAddress(of: content), nil] {
      let asked = address == nil ? try await newAddress(of: content, owner) : nil
      guard let address = address ?? asked else {
        try await store.forgetAddress(of: checksum)
        return false
      }
      switch try await fetch(address, checksum, byteCount: content.byteCount) {
      case .arrived: return true
      case .otherBytes: refusal = nil
      case .refused(let failure): refusal = failure
      }
    }
    if let refusal { throw refusal }
    return false
  }

  private func keptAddress(of content: Content) -> String? {
    guard let expiry = content.expiry, expiry > surroundings.now() + Self.margin else { return nil }
    return content.downloadURL
  }

  private func newAddress(of content: Content, _ owner: AnyObjectID) async throws -> String? {
    let expiry = surroundings.now() + Self.addressLifetime
    guard let place = try await place(of: content, owner, asksHolders: true), let url = place.asset.downloadURL
    else { return nil }
    try await store.keepAddress(url, of: place.owner, for: content.checksum, until: expiry)
    return url
  }

  private enum Fetched {
    case arrived
    /// The file was of another content, and is removed.
    case otherBytes
    case refused(SyncFailure)
  }

  private func fetch(_ url: String, _ checksum: String, byteCount: Int64) async throws -> Fetched {
    let path = store.partialPath(of: checksum)
    let present = PartialFile.byteCount(path)
    if present < byteCount {
      let stream = try await plane.download(url, from: present)
      guard [200, 206].contains(stream.status) else {
        let failure = try await Self.failure(stream)
        // Of an address that ended: another one is asked for.
        guard [403, 404].contains(stream.status) else { throw failure }
        return .refused(failure)
      }
      let file = try PartialFile(path, keepsPart: stream.status == 206)
      // What arrived stays for the next attempt, also of a stream that is cancelled: it ends as if it were whole.
      try await Self.forEachChunk(of: stream) { chunk in try file.append(chunk) }
      if Task.isCancelled { throw SyncFailure.cancelled }
    }
    if present > byteCount { PartialFile.remove(path) }
    return try await store.acceptContent(checksum) ? .arrived : .otherBytes
  }

  private static func failure(_ stream: TransportStream) async throws -> SyncFailure {
    var body: [UInt8] = []
    try await forEachChunk(of: stream) { chunk in body += chunk.prefix(refusalByteLimit - body.count) }
    return .server(ServerError(TransportResponse(status: stream.status, headers: [], body: body)))
  }

  private static func forEachChunk(of stream: TransportStream, _ take: ([UInt8]) throws -> Void) async throws {
    do {
      for try await chunk in stream.chunks { try take(chunk) }
    } catch let failure as SyncFailure {
      throw failure
    } catch {
      throw SyncFailure.transport("a content did not arrive wholly")
    }
  }

  // MARK: Files

  private static func file(_ path: String) throws(SyncFailure) -> [UInt8] {
    do {
      return [UInt8](try Data(contentsOf: URL(filePath: path)))
    } catch {
      throw .damaged("a content's file can't be read")
    }
  }
}
