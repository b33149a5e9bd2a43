// One content on its way into a bucket: a single request while it is short, and parts once it is long.

import Crypto
import Records
import S3
import Synchronization

/// A content that appears in the bucket's spool complete or not at all.
final class SpooledObject: SpooledContent {
  private struct State {
    var intake: ContentIntake
    var parts = S3Parts()
    /// nil while the content fits into one part.
    var upload: S3Upload?
    var sent: [(tag: String, checksum: String)] = []
    var sentByteCount: Int64 = 0
    var isOver = false
  }

  private let bucket: AssetBucket
  private let hour: Int64
  private let state: Mutex<State>

  init(in bucket: AssetBucket, hour: Int64) {
    self.bucket = bucket
    self.hour = hour
    state = Mutex(State(intake: ContentIntake(bucket.keys)))
  }

  func write(_ content: [UInt8]) throws(AssetError) {
    try state.withLock { state throws(AssetError) in
      if state.isOver { throw .io("the upload is over") }
      let bytes = state.intake.add(content)
      for part in state.parts.add(bytes) { try send(part, &state) }
    }
  }

  /// The hash, and so the name, is known at the end only. Until then the parts belong to a name drawn at random, which
  /// no receipt names.
  private func send(_ part: [UInt8], _ state: inout State) throws(AssetError) {
    let upload: S3Upload
    if let begun = state.upload {
      upload = begun
    } else {
      upload = try bucket.begin(bucket.spoolKey(hour, Hex.encode(SecureRandom.bytes(16)) + ".part"))
      state.upload = upload
    }
    guard state.sentByteCount + Int64(part.count) <= S3Parts.contentByteLimit else {
      throw .full("a bucket takes contents of at most \(S3Parts.contentByteLimit) bytes")
    }
    state.sent.append(try bucket.put(part, number: state.sent.count + 1, of: upload))
    state.sentByteCount += Int64(part.count)
  }

  func finish() throws(AssetError) -> Asset {
    try state.withLock { state throws(AssetError) -> Asset in
      if state.isOver { throw .io("the upload is over") }
      let (end, asset) = state.intake.finish()
      for part in state.parts.add(end) { try send(part, &state) }
      let last = state.parts.finish()
      let key = bucket.spoolKey(hour, Hex.encode(asset.hash))
      if state.upload == nil {
        try bucket.put(last, key)
      } else {
        try send(last, &state)
        try name(key, state)
      }
      state.isOver = true
      return asset
    }
  }

  /// Makes the parts an object and gives it its name.
  private func name(_ key: String, _ state: State) throws(AssetError) {
    guard let upload = state.upload else { return }
    try bucket.complete(upload, state.sent, byteCount: state.sentByteCount)
    guard try bucket.copy(upload.key, to: key) else {
      throw .io("\(AssetBucket.text(bucket.location, upload.key)) is missing after its completion")
    }
    // Dropped because the sweep of the spool removes it as well.
    try? bucket.delete([upload.key])
  }

  func discard() {
    state.withLock { state in
      guard !state.isOver else { return }
      state.isOver = true
      guard let upload = state.upload else { return }
      // Dropped because the sweep of the spool removes both as well.
      try? bucket.abort(upload)
      try? bucket.delete([upload.key])
    }
  }
}
