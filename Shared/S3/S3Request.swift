// A request to a bucket as a value, and its signature by version 4 of Amazon's process.

import Crypto

/// One request.
public struct S3Request: Hashable, Sendable {
  public let method: String
  /// The whole key; empty for the bucket.
  public let key: String
  /// In any order.
  public var query: [String: String]
  /// Names in lower case.
  public var headers: [String: String]
  public var body: [UInt8]
  /// The time of the signature, in seconds since 1970, for a request that must not be carried out late: the server
  /// refuses it after `lifetime`. nil: each attempt signs anew, for 15 minutes.
  public var decidedAt: Int64?

  /// Seconds.
  public static let lifetime: Int64 = 30

  public init(
    _ method: String, _ key: String, query: [String: String] = [:], headers: [String: String] = [:], body: [UInt8] = []
  ) {
    self.method = method
    self.key = key
    self.query = query
    self.headers = headers
    self.body = body
  }
}

/// A request as it goes over the wire.
public struct SignedS3Request: Hashable, Sendable {
  public let url: String
  /// Without `host`, which follows from the URL.
  public let headers: [(name: String, value: String)]

  public static func == (left: Self, right: Self) -> Bool {
    left.url == right.url && left.headers.elementsEqual(right.headers) { $0 == $1 }
  }
  public func hash(into hasher: inout Hasher) { hasher.combine(url) }
}

/// Signs requests to one bucket (AWS Signature Version 4).
public struct S3Signer: Sendable {
  public let location: S3Location
  public let credentials: S3Credentials

  public init(location: S3Location, credentials: S3Credentials) {
    self.location = location
    self.credentials = credentials
  }

  private static let algorithm = "AWS4-HMAC-SHA256"
  private static let unsignedPayload = "UNSIGNED-PAYLOAD"

  /// Signs a request with the hash of its body, so that the server refuses an altered one.
  /// - Parameter now: seconds since 1970; the server refuses times that differ by more than 15 minutes from its own.
  public func signed(_ request: S3Request, at now: Int64) -> SignedS3Request {
    signed(request, to: location.place(of: request.key, endpoint: location.endpoint), at: now)
  }

  func signed(_ request: S3Request, to place: S3Location.Place, at now: Int64) -> SignedS3Request {
    let payload = Hex.encode(SHA256.hash(request.body))
    let time = S3Date.text(now)
    var headers = request.headers
    headers["host"] = place.host
    headers["x-amz-date"] = time
    headers["x-amz-content-sha256"] = payload
    headers["x-amz-security-token"] = credentials.sessionToken
    let canonical = canonicalRequest(request.method, place.path, request.query, headers, payload: payload)
    let names = headers.keys.sorted().joined(separator: ";")
    let credential = "\(credentials.keyID)/\(scope(time))"
    let signature = signature(of: canonical, at: time)
    headers["authorization"] =
      "\(Self.algorithm) Credential=\(credential),SignedHeaders=\(names),Signature=\(signature)"
    let query = Self.canonicalQuery(request.query)
    return SignedS3Request(
      url: place.origin + place.path + (query.isEmpty ? "" : "?" + query),
      headers: Self.sent(headers))
  }

  private static func sent(_ headers: [String: String]) -> [(name: String, value: String)] {
    headers.filter { $0.key != "host" }.sorted { $0.key < $1.key }.map { (name: $0.key, value: $0.value) }
  }

  /// Signs a request by its URL, so that the server refuses it after some time. Its checksum protects the body.
  /// - Parameter seconds: the time for which the signature is good, at most a week.
  public func signed(_ request: S3Request, at now: Int64, for seconds: Int64) -> SignedS3Request {
    presigned(request, to: location.place(of: request.key, endpoint: location.endpoint), at: now, for: seconds)
  }

  /// A URL that anybody may GET until it expires, with any range.
  /// - Parameters:
  ///   - query: further parameters, such as `response-content-type`.
  ///   - endpoint: the server that the URL names; nil for Amazon's.
  ///   - seconds: the time for which the URL is good, at most a week.
  public func presigned(
    _ key: String, query: [String: String] = [:], endpoint: String?, at now: Int64, for seconds: Int64
  ) -> String {
    let request = S3Request("GET", key, query: query)
    return presigned(request, to: location.place(of: key, endpoint: endpoint), at: now, for: seconds).url
  }

  func presigned(
    _ request: S3Request, to place: S3Location.Place, at now: Int64, for seconds: Int64
  ) -> SignedS3Request {
    let time = S3Date.text(now)
    var headers = request.headers
    headers["host"] = place.host
    var query = request.query
    query["X-Amz-Algorithm"] = Self.algorithm
    query["X-Amz-Credential"] = "\(credentials.keyID)/\(scope(time))"
    query["X-Amz-Date"] = time
    query["X-Amz-Expires"] = String(seconds)
    query["X-Amz-SignedHeaders"] = headers.keys.sorted().joined(separator: ";")
    query["X-Amz-Security-Token"] = credentials.sessionToken
    let canonical = canonicalRequest(request.method, place.path, query, headers, payload: Self.unsignedPayload)
    let signed = "\(Self.canonicalQuery(query))&X-Amz-Signature=\(signature(of: canonical, at: time))"
    return SignedS3Request(url: "\(place.origin)\(place.path)?\(signed)", headers: Self.sent(headers))
  }

  private func canonicalRequest(
    _ method: String, _ path: String, _ query: [String: String], _ headers: [String: String], payload: String
  ) -> String {
    let sorted = headers.sorted { $0.key < $1.key }
    return [
      method, path, Self.canonicalQuery(query), sorted.map { "\($0.key):\($0.value)\n" }.joined(),
      sorted.map(\.key).joined(separator: ";"), payload,
    ].joined(separator: "\n")
  }

  private static func canonicalQuery(_ query: [String: String]) -> String {
    query.map { (S3Text.encoded($0.key), S3Text.encoded($0.value)) }.sorted { $0.0 < $1.0 }
      .map { "\($0.0)=\($0.1)" }.joined(separator: "&")
  }

  private func scope(_ time: String) -> String { "\(time.prefix(8))/\(location.region)/s3/aws4_request" }

  private func signature(of canonical: String, at time: String) -> String {
    let text = [Self.algorithm, time, scope(time), Hex.encode(SHA256.hash(canonical))].joined(separator: "\n")
    let key = [String(time.prefix(8)), location.region, "s3", "aws4_request"]
      .reduce(Array("AWS4\(credentials.secret)".utf8)) { HMACSHA256.code(for: Array($1.utf8), key: $0) }
    return Hex.encode(HMACSHA256.code(for: Array(text.utf8), key: key))
  }
}
