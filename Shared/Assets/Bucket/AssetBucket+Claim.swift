// Finds out before the first request whether a bucket can be used, and whose it is.

import Crypto
import S3

extension AssetBucket {
  /// Writes, reads, lists and deletes an object, copies it by parts if long contents may come, and marks the bucket as
  /// the installation's.
  /// - Throws: when one of it is refused, with the operation and the place; when the place is another installation's.
  public func claim(for installation: InstallationID) throws(AssetError) {
    let markKey = location.prefix + FolderMark.fileName
    let mark = Array("aquifer \(installation.text)\n".utf8)
    let probe = location.prefix + "check-" + Hex.encode(SecureRandom.bytes(8))
    try put(mark, probe)
    guard try get(probe, from: 0, count: mark.count)?.bytes == mark else {
      throw .io("\(Self.text(location, probe)) was stored and can't be read")
    }
    _ = try prefixes(in: location.prefix)
    do throws(AssetError) {
      try tryLongCopy(of: probe)
    } catch {
      // Dropped because the failure itself is told. The claim is repeated, and must not fill the bucket.
      try? delete([probe])
      throw error
    }
    try delete([probe])
    if try byteCount(of: markKey) == nil { try put(mark, markKey) }
    guard let found = try get(markKey, from: 0, count: 256)?.bytes, found == mark else {
      throw .corrupt(
        "\(location) belongs to another installation than \(installation); give each a prefix of its own")
    }
  }

  /// Copies an object as long ones are copied, unless no content is long. Not each server does that.
  private func tryLongCopy(of source: String) throws(AssetError) {
    guard SealedFile.byteCount(ofContent: contentByteLimit) > limits.copyByteCount else { return }
    let key = source + "-copy"
    guard let found = try state(of: source), try copyByParts(source, found.byteCount, found.tag, to: key) else {
      throw .io("\(Self.text(location, source)) was stored and can't be copied by parts, as long contents are")
    }
    try delete([key])
  }
}
