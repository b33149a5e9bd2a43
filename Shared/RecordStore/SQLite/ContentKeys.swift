// The keys that sealed a shard's contents. Their loss is told of, and unlike that of `sealing_key` refuses nothing: the
// shard's rows can be read without them.

import Assets
public import Crypto

/// A row of `meta` for each key that may have sealed a content of the shard. Earlier releases keep the rows.
enum ContentKey {
  private static let prefix = "contentKey-"

  static func name(of key: KeyRing.ID) -> String { prefix + key.description }

  /// - Returns: nil for another row.
  static func id(inName name: String) -> KeyRing.ID? {
    name.hasPrefix(prefix) ? Hex.decode(String(name.dropFirst(prefix.count))).flatMap { KeyRing.ID(bytes: $0) } : nil
  }
}

extension ShardSession {
  /// Ascending.
  func contentKeys() throws -> [KeyRing.ID] {
    try statement(ShardQuery.contentKeys).all { $0.text(0) }.compactMap(ContentKey.id)
  }
}

extension SQLiteTransaction {
  /// The newest key of the store of assets, if the shard notes it as used.
  func knownContentKey() throws -> KeyRing.ID? {
    guard let newest = assets?.keys.newest else { return nil }
    return try session.contentKeys().contains(newest) ? newest : nil
  }

  /// Notes the newest key as used, in the commit of the first content that is adopted while it is the newest. A gateway
  /// sealed the content, with that key but for the time in which the key is replaced.
  func noteContentKey() throws {
    guard let key = counters.contentKey else { return }
    let insert = try writing(ShardQuery.setMeta)
    try insert.bind(1, ContentKey.name(of: key))
    try insert.bind(2, 1)
    try insert.run()
  }
}

extension SQLiteShardStore {
  public func missingContentKeys() async throws -> [KeyRing.ID] {
    guard let known = assets?.keys else { return [] }
    return try await enqueue(of: "") { try $0.session.contentKeys() }.value.filter { !known.contains($0) }
  }
}
