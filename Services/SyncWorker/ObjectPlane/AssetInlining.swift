// Puts large values into answers: inline while there is room for them, else as links to their content.

import Assets
import History
import Mirroring
import ObjectModel
import RecordStore
import Records
import ServiceBus
import WebServices
import ZoneCommit

/// How an answer shows bytes that are assets; texts and composites are always read inline.
enum AssetForm: String {
  case inline, links
}

/// Puts the contents of assets back into values.
struct AssetInliner: Sendable {
  let assets: any AssetStore
  let shard: Int
  /// nil when the model is unknown: text and bytes then look alike, so everything stays a link.
  let deserializer: Deserializer?
  var form = AssetForm.inline
  /// The contents for a body of the shard; nil: the calling thread may block.
  var contents: ContentsAtHand?

  /// Bytes of content in one change or transaction: in base64, behind a page, they stay below the bus's message limit.
  static let byteLimit: Int64 = 3_000_000
  /// Bytes of content that fill any page.
  static let pageContentByteLimit: Int64 = 12_000_000

  /// - Returns: the object, or the problem with the content of one of its assets.
  func inlined(_ object: ObjectValues, recordName: String) -> Result<ObjectValues, MirroringProblem> {
    var budget = Self.byteLimit
    var result = object
    do throws(MirroringProblem) {
      result.attributes = try inlined(object.attributes, of: object.entity, recordName: recordName, budget: &budget)
    } catch {
      return .failure(error)
    }
    return .success(result)
  }

  /// Reads contents on a thread that may block.
  /// - Parameter party: whose turn that takes.
  /// - Returns: nil for an object with an asset whose content does not fit.
  func inlinedApart(_ object: ObjectValues, recordName: String, of party: String) async -> ObjectValues? {
    guard object.attributes.contains(where: \.value.isAsset) else { return object }
    // Dropped because the call throws nothing.
    return try? await assets.apart(of: party) { _ in try? inlined(object, recordName: recordName).get() }
  }

  /// Reads contents on a thread that may block.
  func inlinedApart(_ transaction: HistoryTransaction, of party: String) async -> HistoryTransaction {
    guard transaction.changes.contains(where: { $0.attributes.contains(where: \.value.isAsset) }) else {
      return transaction
    }
    // Dropped because the call throws nothing.
    return (try? await assets.apart(of: party) { _ in inlined(transaction) }) ?? transaction
  }

  /// Values whose content does not fit the model stay links.
  func inlined(_ transaction: HistoryTransaction) -> HistoryTransaction {
    var budget = Self.byteLimit
    var result = transaction
    for (index, change) in transaction.changes.enumerated() where change.attributes.contains(where: \.value.isAsset) {
      // Dropped because the link remains, and the import reports the record's fault.
      guard
        let attributes = try? inlined(
          change.attributes, of: change.entity, recordName: change.objectID, budget: &budget)
      else { continue }
      result.changes[index] = HistoryChange(
        changeType: change.changeType, entity: change.entity, objectID: change.objectID, attributes: attributes,
        relationships: change.relationships,
        tombstone: change.tombstone)
    }
    return result
  }

  private func inlined(
    _ attributes: [NamedValue<AttributeValue>], of entityName: String, recordName: String, budget: inout Int64
  ) throws(MirroringProblem) -> [NamedValue<AttributeValue>] {
    guard let deserializer, let entity = deserializer.model.entity(named: entityName),
      attributes.contains(where: \.value.isAsset)
    else { return attributes }
    var result = attributes
    for (index, attribute) in attributes.enumerated() {
      guard case .asset(let asset) = attribute.value, asset.byteCount <= budget else { continue }
      if form == .links, entity.attribute(named: attribute.name)?.type.isBytes == true { continue }
      // Dropped because the answer carries a link instead, and a request for that link reports the file's fault.
      guard let content = try? content(of: asset) else { continue }
      budget -= asset.byteCount
      let value = try deserializer.value(
        of: attribute.name, entity: entity, fromAssetContent: content, recordName: recordName)
      result[index] = NamedValue(name: attribute.name, value: value)
    }
    return result
  }
}

extension AssetInliner {
  fileprivate func content(of asset: Asset) throws -> [UInt8] {
    if let contents { return try contents.content(of: asset) }
    return try assets.read(asset, shard: shard)
  }
}

extension AttributeType {
  /// True for values that answers spell as base64.
  fileprivate var isBytes: Bool {
    switch self {
    case .binary, .transformable: true
    default: false
    }
  }
}

extension AttributeValue {
  fileprivate var isAsset: Bool { if case .asset = self { true } else { false } }
}

extension StoreCall {
  /// How the request asks for large values.
  func assetForm() throws(RecordError) -> AssetForm {
    guard let form = AssetForm(rawValue: request.query["assets"] ?? AssetForm.inline.rawValue) else {
      throw RecordError(.badRequest, "assets is inline or links")
    }
    return form
  }

  func inliner(for mirror: StoredMirror) async throws(RecordError) -> AssetInliner {
    let schema = try await context.schemas.schema(of: request.database.container, request.database.environment)
    return AssetInliner(
      assets: context.assets, shard: store.shard,
      deserializer: schema.mirrorModels[mirror.modelHash].map { Deserializer($0.index) })
  }
}

/// Bounds a page: one item of any length still fits into the bus's message limit.
protocol AnswerPage {
  /// Bytes written so far.
  var byteCount: Int { get }
}

extension AnswerPage {
  /// A page takes its first item whatever its length.
  func hasRoom(for encoded: [UInt8]) -> Bool {
    byteCount < Self.emptyByteCount || byteCount + encoded.count <= Self.pageByteCount
  }

  /// An empty page has less.
  private static var emptyByteCount: Int { 64 }
  /// Half the bus's message limit.
  private static var pageByteCount: Int { Limit.requestByteCount / 2 }
}

extension HistoryWriter: AnswerPage {}
extension ImportBatchWriter: AnswerPage {}
