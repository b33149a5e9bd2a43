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
    guard let owner = try await store.content(content.checksum)?.owner, !owner.recordName.isEmpty,
      let zoneID = try await store.zone(of: owner), let object = try await plane.object(owner.recordName)
    else { return false }
    for case (let name, .asset(let asset)) in object.attributes
    where ContentName(fileChecksum: asset.fileChecksum, byteCount: asset.size)?.checksum == content.checksum {
      let field = RereferenceRequest.Field(recordName: owner.recordName, fieldName: "CD_\(name)_ckAsset")
      let started = surroundings.now()
      let answer: RereferenceAnswer
      do throws(SyncFailure) {
        answer = try await plane.record("assets/rereference", RereferenceRequest(zoneID: zoneID, assets: [field]))
      } catch {
        guard case .server(let refusal) = error, refusal.remedy == .none else { throw error }
        return false
      }
      guard let receipt = answer.assets.first?.receipt else { return false }
      let reference = AssetReference(fileChecksum: asset.fileChecksum, size: asset.size, receipt: receipt)
      try await store.keepReceipt(reference, for: content.checksum, until: started + Self.receiptLifetime)
      return true
    }
    return false
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
    // Twice: an address may have ended, and a part of an earlier attempt may be of other bytes.
    for _ in 0..<2 {
      guard let address = try await address(of: content, owner) else { return false }
      if try await fetch(address, checksum, byteCount: content.byteCount) { return true }
    }
    return false
  }

  private func address(of content: Content, _ owner: AnyObjectID) async throws -> String? {
    if let url = content.downloadURL, let expiry = content.expiry, expiry > surroundings.now() + Self.margin {
      return url
    }
    guard let object = try await plane.object(owner.recordName) else { return nil }
    let expiry = surroundings.now() + Self.addressLifetime
    for case .asset(let asset) in object.attributes.values where asset.size == content.byteCount {
      guard let url = asset.downloadURL else { continue }
      try await store.keepAddress(url, for: content.checksum, until: expiry)
      return url
    }
    return nil
  }

  private func fetch(_ url: String, _ checksum: String, byteCount: Int64) async throws -> Bool {
    let path = store.partialPath(of: checksum)
    let present = PartialFile.byteCount(path)
    if present < byteCount {
      let stream = try await plane.download(url, from: present)
      // An address that ended: the next attempt asks for another.
      if [403, 404].contains(stream.status) { return false }
      guard [200, 206].contains(stream.status) else {
        throw SyncFailure.server(ServerError(status: stream.status, serverErrorCode: "", reason: "no content"))
      }
      let file = try PartialFile(path, keepsPart: stream.status == 206)
      do {
        for try await chunk in stream.chunks { try file.append(chunk) }
      } catch let failure as SyncFailure {
        throw failure
      } catch {
        // What arrived stays for the next attempt.
        throw SyncFailure.transport("a content did not arrive wholly")
      }
    }
    if present > byteCount { PartialFile.remove(path) }
    return try await store.acceptContent(checksum)
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
