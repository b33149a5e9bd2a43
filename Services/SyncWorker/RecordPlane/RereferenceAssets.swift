// assets/rereference (docs/protocol/record-plane.md#assets): receipts for content that records have, and the check of
// content that records are to have.

import Assets
import JSON
import RecordStore
import Records
import ServiceBus
import ServiceKit
import WebServices
import ZoneCommit

extension RecordPlaneCall {
  func rereferenceAssets() async throws(RecordError) -> PlaneAnswer {
    let zone = try zone(ZoneReference(of: json))
    guard let user = request.caller.userRecordName else {
      throw RecordError(.authenticationRequired, "request needs authorization")
    }
    let items = try RereferenceAssetsRequest(json).items
    let (finder, assets, shard) = (finder, context.assets, store.shard)
    let expiry = AssetLifetime.uploadExpiry(at: context.clock.now)
    let permissions = try await permissions()
    let schema = try await context.schemas.schema(of: database.container, database.environment)
    let found = try await read { snapshot in
      let view = try finder.require(zone, in: snapshot)
      let visible = view.map { VisibleRecords($0, in: snapshot) }
      return try items.map { item throws -> Result<Asset, RecordError> in
        guard let row = view?.row, let stored = try snapshot.record(named: item.recordName, in: row.key),
          !stored.isDeleted,
          permissions?.mayRead(stored.record) ?? true, try visible?.isVisible(stored.record) ?? true
        else {
          return .failure(RecordError(.notFound, "Record not found"))
        }
        guard let asset = schema.asset(in: item.fieldName, of: stored.record) else {
          return .failure(
            RecordError(
              .badRequest,
              "\(stored.record.recordType) '\(item.recordName.prefix(Limit.nameByteCount))' has no asset in that field")
          )
        }
        return .success(asset)
      }
    }
    // Where it will be used may be another shard, and this record may be gone by then: so it is as if it had been
    // uploaded again. After the read, which others wait for; what was collected in between is refused.
    let offered: Set<Asset>
    do throws(AssetError) {
      let known = found.compactMap(\.asset)
      offered = try await assets.apart(of: request.party) { assets throws(AssetError) in
        try assets.offer(known, of: shard, until: expiry)
      }
    } catch {
      throw RecordError(storing: error, log: context.log)
    }
    var output = JSONWriter(reservingByteCount: 512 * (items.count + 1))
    output.beginObject()
    output.key("assets")
    output.beginArray()
    for (item, result) in zip(items, found) {
      switch result {
      case .success(let asset) where !offered.contains(asset):
        RecordDictionaryWriter.writeError(
          RecordError(.notFound, "asset not found: upload it again"), of: item.recordName, to: &output)
      case .success(let asset):
        AssetReceipt(asset: asset, expiry: expiry).write(
          for: assetUser(user), signedWith: context.signing.key, to: &output)
      case .failure(let error): RecordDictionaryWriter.writeError(error, of: item.recordName, to: &output)
      }
    }
    output.endArray()
    output.endObject()
    return PlaneAnswer(body: output.bytes)
  }

  private func assetUser(_ name: String) -> AssetUser {
    AssetUser(container: database.container, environment: database.environment, userRecordName: name)
  }

  /// Reads the assets of the caller's requests.
  var assetReader: AssetReader { context.signing.reader(for: request) }
}

/// Refuses records that name content which is gone.
enum AssetCheck {
  static func checked(
    _ decision: Result<OperationDecision, RecordError>, replacing existing: StoredRecord?,
    in transaction: any ShardTransaction
  ) throws -> Result<OperationDecision, RecordError> {
    guard case .success(.save(let record)) = decision else { return decision }
    for element in record.fields where element.field.value.type == .asset || element.field.value.type == .assetList {
      if let existing, !existing.isDeleted, existing.record.fields[element.name]?.value == element.field.value {
        continue
      }
      for asset in element.field.value.assets where try !transaction.hasContent(of: asset) {
        return .failure(
          RecordError(.badRequest, "\(record.recordType).\(element.name): asset not found: upload it again"))
      }
    }
    return decision
  }
}

extension Result<Asset, RecordError> {
  fileprivate var asset: Asset? { if case .success(let asset) = self { asset } else { nil } }
}
