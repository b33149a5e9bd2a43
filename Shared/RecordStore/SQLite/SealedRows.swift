// Seals rows of a shard's file: records with encrypted fields, and saved, held-back and lost values of encrypted
// attributes (R7).

import Crypto
import Records
import SQLite

extension StoreError {
  static func missingKey(_ id: KeyRing.ID, shard: Int) -> StoreError {
    .missingKey(
      """
      shard \(shard) holds values that were sealed with the encryption key \(id), which is not in the key file \
      (--encryption-key)
      """
    )
  }
}

extension ShardSession {
  /// The record in a row's blob, sealed or not.
  /// - Throws: `StoreError.missingKey`, or another error for a damaged blob.
  func record(inBlob blob: UnsafeRawBufferPointer, recordName: String, recordType: String) throws -> Record {
    guard KeyRing.isSealed(blob) else {
      return try Record(decoding: blob, recordName: recordName, recordType: recordType)
    }
    return try Record(decoding: try open(blob, for: .record), recordName: recordName, recordType: recordType)
  }

  /// Appends the stored record of a row's blob, sealed or not.
  func append(contentOf blob: UnsafeRawBufferPointer, to bytes: inout [UInt8]) throws {
    if KeyRing.isSealed(blob) {
      bytes.append(contentsOf: try open(blob, for: .record))
    } else {
      bytes.append(contentsOf: blob)
    }
  }

  /// The assets of a stored record; empty when it is unreadable.
  func assets(inBlob blob: UnsafeRawBufferPointer) -> [Asset] {
    // Dropped because a damaged row must not block the removal of its zone. Its uses stay counted, and verification
    // reports them.
    (try? record(inBlob: blob, recordName: "", recordType: ""))?.assets ?? []
  }

  /// The content of a payload, sealed or not.
  func opened(_ payload: [UInt8], for purpose: KeyRing.Purpose) throws -> [UInt8] {
    try payload.withUnsafeBytes { KeyRing.isSealed($0) ? try open($0, for: purpose) : payload }
  }

  func opened(_ transaction: StoredTransaction) throws -> StoredTransaction {
    guard transaction.payload.withUnsafeBytes(KeyRing.isSealed) else { return transaction }
    return transaction.with(payload: try opened(transaction.payload, for: .history), isEncrypted: true)
  }

  private func open(_ blob: UnsafeRawBufferPointer, for purpose: KeyRing.Purpose) throws -> [UInt8] {
    do {
      return try keys.open(blob, for: purpose)
    } catch .missingKey(let id) {
      throw StoreError.missingKey(id, shard: shard)
    } catch .altered {
      throw StoreError.corrupt("shard \(shard): a sealed row is damaged; restore it from a backup")
    }
  }
}

extension SQLiteTransaction {
  /// - Throws: `StoreError.missingKey` when there is no key, because encrypted values are never stored in clear.
  func seal(_ content: [UInt8], for purpose: KeyRing.Purpose) throws -> [UInt8] {
    guard session.keys.canSeal else {
      throw StoreError.missingKey(
        "shard \(shard) has no encryption key to store encrypted values with (--encryption-key)")
    }
    counters.sealingKey = session.keys.newest
    return session.keys.seal(content, for: purpose)
  }

  /// Seals rarely written values that no query searches, unless there is no key.
  func sealedIfThereIsAKey(_ content: [UInt8], for purpose: KeyRing.Purpose) throws -> [UInt8] {
    session.keys.canSeal ? try seal(content, for: purpose) : content
  }

  func sealed(_ transaction: StoredTransaction) throws -> StoredTransaction {
    transaction.with(payload: try seal(transaction.payload, for: .history), isEncrypted: true)
  }

  // MARK: Which keys the shard needs

  /// The newest key, if the file notes it as used.
  func knownSealingKey() throws -> KeyRing.ID? {
    guard let newest = session.keys.newest else { return nil }
    return try statement(ShardQuery.sealingKeys).all { $0.blob(0) }.contains(newest.bytes) ? newest : nil
  }

  /// Notes the newest key as used, in the commit of the first value that it seals.
  func noteSealingKey() throws {
    guard let key = counters.sealingKey else { return }
    let insert = try writing(ShardQuery.noteSealingKey)
    try insert.bind(1, key.bytes)
    try insert.run()
  }
}

extension StoredTransaction {
  fileprivate func with(payload: [UInt8], isEncrypted: Bool) -> StoredTransaction {
    StoredTransaction(
      number: number, transactionID: transactionID, author: author, appendedAt: appendedAt, payload: payload,
      isEncrypted: isEncrypted)
  }
}
