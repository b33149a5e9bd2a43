// The requests that the bucket's engine is made of.

import Crypto
import HTTPClient
import S3
import XML

extension AssetBucket {
  /// A key's place, for operators.
  static func text(_ location: S3Location, _ key: String) -> String { S3Location.scheme + location.bucket + "/" + key }

  func call<Value>(
    _ operation: String, _ key: String, _ call: () throws(BucketFailure) -> Value
  ) throws(AssetError) -> Value {
    do throws(BucketFailure) {
      return try call()
    } catch {
      throw error.error("\(operation) \(Self.text(location, key))")
    }
  }

  /// The length of an object in bytes; nil when it is missing.
  func byteCount(of key: String) throws(AssetError) -> Int64? { try state(of: key)?.byteCount }

  /// The length of an object in bytes, and its tag; nil when it is missing.
  func state(of key: String) throws(AssetError) -> (byteCount: Int64, tag: String)? {
    try call("look at", key) { () throws(BucketFailure) in
      do throws(BucketFailure) {
        let answer = try connection.tagged(S3Request("HEAD", key))
        return answer.response["content-length"].flatMap { Int64($0) }.map { ($0, answer.tag) }
      } catch {
        // An answer to HEAD has no body, and so no code.
        if error.isMissing { return nil }
        throw error
      }
    }
  }

  /// Stores an object in one request.
  /// - Parameter bytes: at most some megabytes.
  func put(_ bytes: [UInt8], _ key: String) throws(AssetError) {
    _ = try call("store", key) { () throws(BucketFailure) in
      try connection.tagged(S3Request("PUT", key, headers: Self.checksum(of: bytes), body: bytes))
    }
  }

  /// Deletes objects. Skips missing ones.
  /// - Parameters:
  ///   - keys: at most 1000.
  ///   - time: see `S3Request.decidedAt`.
  func delete(_ keys: [String], _ retry: S3Retry = .patient, decidedAt time: Int64? = nil) throws(AssetError) {
    guard let first = keys.first else { return }
    try call("delete", first) { () throws(BucketFailure) in
      let body = S3Upload.deletion(keys)
      var request = S3Request("POST", "", query: ["delete": ""], headers: Self.checksum(of: body), body: body)
      request.decidedAt = time
      let node = try connection.document("DeleteResult", request, retry)
      guard let error = node.children(named: "Error").first else { return }
      throw .refused(S3Refusal(status: 500, code: error.value("Code") ?? ""))
    }
  }

  /// Lists the objects whose keys begin with `prefix`, in the order of their keys.
  /// - Parameters:
  ///   - key: the list begins behind it.
  ///   - take: called with each page; returns whether to go on.
  func list(_ prefix: String, after key: String? = nil, _ take: ([S3Object]) throws(AssetError) -> Bool)
    throws(AssetError)
  {
    var query = ["list-type": "2", "prefix": prefix]
    query["start-after"] = key
    try pages(query) { page throws(AssetError) in try take(page.objects) }
  }

  /// Lists what is directly in a folder.
  /// - Parameters:
  ///   - folder: a whole key's beginning, up to a slash.
  ///   - take: called with each page.
  func list(folder: String, _ take: (S3List) -> Void) throws(AssetError) {
    try pages(["list-type": "2", "prefix": folder, "delimiter": "/"]) { page in
      take(page)
      return true
    }
  }

  /// The names between `folder` and the next slash of all keys.
  func prefixes(in folder: String) throws(AssetError) -> [String] {
    var names: [String] = []
    try list(folder: folder) { page in names += page.prefixes.map { String($0.dropFirst(folder.count).dropLast()) } }
    return names
  }

  /// - Parameter take: called with each page; returns whether to go on.
  private func pages(_ query: [String: String], _ take: (S3List) throws(AssetError) -> Bool) throws(AssetError) {
    var query = query
    while true {
      let page = try call("list", query["prefix"] ?? "") { () throws(BucketFailure) in
        guard let list = S3List(try connection.document(S3List.root, S3Request("GET", "", query: query))) else {
          throw .wrong("the answer is no list")
        }
        return list
      }
      guard try take(page), let continuation = page.continuation else { return }
      query["continuation-token"] = continuation
    }
  }

  // MARK: Uploads in parts

  /// - Parameter hasChecksums: true when the parts are sent with their checksums.
  func begin(_ key: String, hasChecksums: Bool = true) throws(AssetError) -> S3Upload {
    try call("begin", key) { () throws(BucketFailure) in
      let request = S3Request(
        "POST", key, query: ["uploads": ""], headers: hasChecksums ? ["x-amz-checksum-algorithm": "SHA256"] : [:])
      guard let id = try connection.document("InitiateMultipartUploadResult", request).value("UploadId") else {
        throw .wrong("the answer has no identifier")
      }
      return S3Upload(key: key, id: id)
    }
  }

  /// - Parameter number: from 1.
  func put(_ part: [UInt8], number: Int, of upload: S3Upload) throws(AssetError) -> S3Upload.Part {
    try call("store part \(number) of", upload.key) { () throws(BucketFailure) in
      let headers = Self.checksum(of: part)
      let (_, tag) = try connection.tagged(
        S3Request(
          "PUT", upload.key, query: ["partNumber": String(number), "uploadId": upload.id], headers: headers, body: part)
      )
      return S3Upload.Part(tag: tag, checksum: headers[Self.checksumName])
    }
  }

  /// Makes the object of its parts.
  /// - Parameter byteCount: the length of the whole object.
  func complete(_ upload: S3Upload, _ parts: [S3Upload.Part], byteCount: Int64) throws(AssetError) {
    try call("complete", upload.key) { () throws(BucketFailure) in
      let request = S3Request(
        "POST", upload.key, query: ["uploadId": upload.id], body: S3Upload.completion(parts))
      do throws(BucketFailure) {
        _ = try connection.document("CompleteMultipartUploadResult", request)
      } catch {
        // An earlier attempt completed it, and its answer got lost.
        guard error.isMissing else { throw error }
      }
    }
    guard try self.byteCount(of: upload.key) == byteCount else {
      throw .io("complete \(Self.text(location, upload.key)): the object has another length than was sent")
    }
  }

  /// Removes the parts. Does nothing when the upload is over.
  func abort(_ upload: S3Upload) throws(AssetError) {
    try call("abort", upload.key) { () throws(BucketFailure) in
      do throws(BucketFailure) {
        _ = try connection.send(S3Request("DELETE", upload.key, query: ["uploadId": upload.id]))
      } catch {
        guard error.isMissing else { throw error }
      }
    }
  }

  /// Uploads to the spool, and copies by parts.
  func unfinishedUploads() throws(AssetError) -> [S3Upload] {
    var query = ["uploads": "", "prefix": location.prefix]
    var uploads: [S3Upload] = []
    while true {
      let page = try call("list uploads", location.prefix) { () throws(BucketFailure) in
        let request = S3Request("GET", "", query: query)
        guard let list = S3UploadList(try connection.document(S3UploadList.root, request)) else {
          throw .wrong("the answer is no list")
        }
        return list
      }
      uploads += page.uploads
      guard let continuation = page.continuation else { return uploads }
      query.merge(continuation) { $1 }
    }
  }

  // MARK: Reading

  /// Reads a range of an object.
  /// - Parameter tag: the tag that the object must still have.
  /// - Returns: nil when the object is missing; the length of the whole object, its tag, and the bytes that it has of
  ///   the range.
  func get(
    _ key: String, from offset: Int64, count: Int, tag: String? = nil
  ) throws(AssetError) -> (byteCount: Int64, tag: String, bytes: [UInt8])? {
    try call("read", key) { () throws(BucketFailure) in
      var headers = ["range": "bytes=\(offset)-\(offset + Int64(count) - 1)"]
      headers["if-match"] = tag
      let (response, found): (HTTPClient.Response, String)
      do throws(BucketFailure) {
        (response, found) = try connection.tagged(S3Request("GET", key, headers: headers))
      } catch {
        if error.isMissing { return nil }
        // An empty object has no range at all.
        if case .refused(let refusal) = error, refusal.status == 416, offset == 0 { return (0, "", []) }
        throw error
      }
      let whole =
        response.status == 206
        ? response["content-range"].flatMap { $0.split(separator: "/").last }.flatMap { Int64($0) }
        : Int64(response.body.count)
      guard let whole, response.body.count == Int(min(Int64(count), max(whole - offset, 0))) else {
        throw .wrong("the answer has other bytes than were asked for")
      }
      return (whole, found, response.body)
    }
  }

  private static let checksumName = "x-amz-checksum-sha256"

  /// The server compares the bytes that arrive with it, and keeps it.
  private static func checksum(of bytes: [UInt8]) -> [String: String] {
    [checksumName: Base64.encode(SHA256.hash(bytes)), "x-amz-sdk-checksum-algorithm": "SHA256"]
  }
}
