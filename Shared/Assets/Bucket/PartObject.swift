// Writes one object of a bucket: a single request while it is short, and parts once it is long.

import Crypto
import S3

/// An object that appears under its name complete or not at all. Parts belong to a name in the spool that is drawn at
/// random, and that the spool's sweep ends if a crash leaves it.
final class PartObject: UnnamedContent {
  private let bucket: AssetBucket
  private let hour: Int64
  private var parts = S3Parts()
  /// nil while the content fits into one part.
  private var upload: S3Upload?
  private var sent: [S3Upload.Part] = []
  private var sentByteCount: Int64 = 0
  var partCount: Int { sent.count }

  init(in bucket: AssetBucket, hour: Int64) {
    self.bucket = bucket
    self.hour = hour
  }

  func add(_ bytes: [UInt8]) throws(AssetError) {
    for part in parts.add(bytes) { try send(part) }
  }

  private func send(_ part: [UInt8]) throws(AssetError) {
    let upload: S3Upload
    if let begun = self.upload {
      upload = begun
    } else {
      upload = try bucket.begin(bucket.spoolKey(hour, Hex.encode(SecureRandom.bytes(16)) + ".part"))
      self.upload = upload
    }
    guard sentByteCount + Int64(part.count) <= S3Parts.contentByteLimit else {
      throw .full("a bucket takes contents of at most \(S3Parts.contentByteLimit) bytes")
    }
    sent.append(try bucket.put(part, number: sent.count + 1, of: upload))
    sentByteCount += Int64(part.count)
  }

  func finish(as name: String) throws(AssetError) {
    let key = bucket.location.prefix + name
    let last = parts.finish()
    if upload == nil { return try bucket.put(last, key) }
    try send(last)
    guard let upload else { return }
    try bucket.complete(upload, sent, byteCount: sentByteCount)
    guard try bucket.copy(upload.key, to: key, atMost: sentByteCount) else {
      throw .io("\(AssetBucket.text(bucket.location, upload.key)) is missing after its completion")
    }
    self.upload = nil
    // Dropped because the sweep of the spool removes it as well.
    try? bucket.delete([upload.key])
  }

  func discard() {
    parts = S3Parts()
    guard let upload else { return }
    self.upload = nil
    // Dropped because the sweep of the spool removes both as well.
    try? bucket.abort(upload)
    try? bucket.delete([upload.key])
  }
}
