// Signs the links to an answer's assets, and reads the receipts that a request presents.

import RecordStore
package import Records
package import ServiceBus
package import ServiceKit
package import WebServices

/// The installation's key for asset URLs and receipts (`FetchSecrets`).
package struct AssetSigning: Sendable {
  package let key: [UInt8]
  package let clock: any WallClock

  package init(key: [UInt8], clock: any WallClock) {
    self.key = key
    self.clock = clock
  }

  /// Writes the records of a zone into an answer.
  /// - Parameters:
  ///   - reader: the participant for whom links to assets hold, as long as the share; nil: links for anybody who is
  ///     given one.
  ///   - shard: the zone's shard.
  package func writer(for zone: Zone.ID, reader: AssetURL.Reader?, baseURL: String, shard: Int)
    -> RecordDictionaryWriter
  {
    RecordDictionaryWriter(zone: zone, assets: links(baseURL: baseURL, shard: shard, reader: reader))
  }

  /// Links to an answer's assets for its reader; those of shared zones hold only as long as the share.
  /// - Parameter zone: the zone of the assets; nil: zones of the database that the caller may read.
  package func links(for request: DatabaseRequest, zone: Zone.ID? = nil, shard: Int)
    -> RecordDictionaryWriter.AssetLinks
  {
    let database = request.database
    let reader = request.caller.userRecordName.flatMap { user in
      request.scope != .shared || user == database.owner
        ? nil
        : AssetURL.Reader(
          container: database.container, environment: database.environment, owner: database.owner, userRecordName: user,
          zoneName: zone?.zoneName)
    }
    return links(baseURL: request.baseURL, shard: shard, reader: reader)
  }

  private func links(baseURL: String, shard: Int, reader: AssetURL.Reader?) -> RecordDictionaryWriter.AssetLinks {
    RecordDictionaryWriter.AssetLinks(
      baseURL: baseURL, signingKey: key, expiry: clock.now / 1000 + AssetLifetime.urlSeconds, shard: shard,
      reader: reader)
  }

  /// Reads receipts of content that a request's caller uploaded to its container.
  package func reader(for request: DatabaseRequest) -> AssetReader {
    AssetReader(
      user: AssetUser(
        container: request.database.container, environment: request.database.environment,
        userRecordName: request.caller.userRecordName ?? ""),
      key: key, now: clock.now / 1000)
  }
}
