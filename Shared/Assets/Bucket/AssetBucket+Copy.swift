// Copies objects within a bucket: at once while they are short, and by parts once they are long.

import Crypto
import Records
import S3

extension AssetBucket {
  /// The limits of work within the bucket.
  struct Limits: Hashable, Sendable {
    /// The longest object that one request copies. A server copies at most 5 GiB by one, and has some seconds for it.
    var copyByteCount: Int64 = 1 << 30
    /// The length of a part of a longer copy.
    var copyPartByteCount: Int64 = 256 << 20
    /// The time after which a preparation or an offer asks for no further content. Unit: seconds.
    var patienceSeconds: Int64 = 30
  }

  /// Copies an object of a content within the bucket. The copy appears complete or not at all.
  /// - Returns: false when it is missing.
  func copy(_ source: String, of asset: Asset, to key: String) throws(AssetError) -> Bool {
    try copy(source, to: key, atMost: SealedFile.byteCount(ofContent: asset.byteCount))
  }

  /// - Parameter most: no less than the length of the object. Unit: bytes.
  func copy(_ source: String, to key: String, atMost most: Int64) throws(AssetError) -> Bool {
    if most <= limits.copyByteCount { return try copyAtOnce(source, to: key) }
    guard let found = try state(of: source) else { return false }
    return found.byteCount <= limits.copyByteCount
      ? try copyAtOnce(source, to: key) : try copyByParts(source, found.byteCount, found.tag, to: key)
  }

  /// - Parameters:
  ///   - byteCount: the length of the source, at least 1.
  ///   - tag: the tag that it must still have.
  /// - Returns: false when it is missing.
  func copyByParts(
    _ source: String, _ byteCount: Int64, _ tag: String, to key: String
  ) throws(AssetError) -> Bool {
    let upload = try begin(key, hasChecksums: false)
    do throws(AssetError) {
      guard let parts = try copiedParts(source, byteCount, tag, to: upload) else {
        try abort(upload)
        return false
      }
      try complete(upload, parts, byteCount: byteCount)
      return true
    } catch {
      // Dropped because the sweep ends it as well.
      try? abort(upload)
      throw error
    }
  }

  private func copyAtOnce(_ source: String, to key: String) throws(AssetError) -> Bool {
    try call("copy \(source) to", key) { () throws(BucketFailure) in
      do throws(BucketFailure) {
        let headers = ["x-amz-copy-source": copySource(source)]
        _ = try connection.document("CopyObjectResult", S3Request("PUT", key, headers: headers))
        return true
      } catch {
        if error.isMissing { return false }
        throw error
      }
    }
  }

  /// - Returns: nil when the source is missing.
  private func copiedParts(
    _ source: String, _ byteCount: Int64, _ tag: String, to upload: S3Upload
  ) throws(AssetError) -> [S3Upload.Part]? {
    var parts: [S3Upload.Part] = []
    var offset: Int64 = 0
    while offset < byteCount {
      let end = min(offset + limits.copyPartByteCount, byteCount)
      guard let part = try copyPart(source, offset..<end, tag, number: parts.count + 1, of: upload) else { return nil }
      parts.append(part)
      offset = end
    }
    return parts
  }

  /// - Parameter tag: the tag that the source must still have: parts of two sealed forms of a content are no content.
  /// - Returns: nil when the source is missing.
  private func copyPart(
    _ source: String, _ range: Range<Int64>, _ tag: String, number: Int, of upload: S3Upload
  ) throws(AssetError) -> S3Upload.Part? {
    try call("copy part \(number) of \(source) to", upload.key) { () throws(BucketFailure) in
      let request = S3Request(
        "PUT", upload.key, query: ["partNumber": String(number), "uploadId": upload.id],
        headers: [
          "x-amz-copy-source": copySource(source), "x-amz-copy-source-if-match": tag,
          "x-amz-copy-source-range": "bytes=\(range.lowerBound)-\(range.upperBound - 1)",
        ])
      do throws(BucketFailure) {
        guard let tag = try connection.document("CopyPartResult", request).value("ETag") else {
          throw .wrong("the answer has no tag")
        }
        return S3Upload.Part(tag: tag, checksum: nil)
      } catch {
        guard case .refused(let refusal) = error else { throw error }
        if refusal.status == 412 { throw .unanswered("the source was replaced meanwhile") }
        guard error.isMissing, refusal.code != "NoSuchUpload" else { throw error }
        return nil
      }
    }
  }

  private func copySource(_ key: String) -> String {
    "/\(location.bucket)/\(S3Text.encoded(key, keepsSlashes: true))"
  }
}
