// Sends signed requests to a bucket, and repeats those that a later attempt may carry out.

import Crypto
import Dispatch
import Glibc
import HTTPClient
import S3
import Synchronization
import XML

/// What a connection to a bucket reports, for metrics.
public enum BucketEvent: Sendable {
  /// One attempt ended. `status` is nil without an answer; bytes are those of bodies.
  case attempt(method: String, status: Int?, Duration, sent: Int, received: Int)
  /// An attempt is going to be repeated.
  case repetition
}

/// A request that the bucket did not carry out.
enum BucketFailure: Error, Hashable {
  case refused(S3Refusal)
  /// No whole answer came, so the bucket may have done it.
  case unanswered(String)
  /// The answer contradicts the request.
  case wrong(String)

  /// - Parameter operation: what was to be done, with the place.
  func error(_ operation: String) -> AssetError {
    switch self {
    case .refused(let refusal):
      let text = "\(operation): the server answers \(refusal.status) \(refusal.code)"
      if refusal.status == 507 || refusal.code == "QuotaExceeded" { return .full(text) }
      // An operator mends permissions while everything runs.
      return S3Retry.isPassing(refusal) || refusal.status == 403 ? .unavailable(text) : .io(text)
    case .unanswered(let reason): return .unavailable("\(operation): \(reason)")
    case .wrong(let reason): return .io("\(operation): \(reason)")
    }
  }

  var isMissing: Bool {
    if case .refused(let refusal) = self { refusal.status == 404 && refusal.code != "NoSuchBucket" } else { false }
  }
}

/// The connections to one bucket. Calls block; any thread but a task's may make them.
final class BucketConnection: Sendable {
  let signer: S3Signer
  private let client: HTTPClient
  private let clock: @Sendable () -> Int64
  private let observe: @Sendable (BucketEvent) -> Void
  /// Requests under way; the next one waits.
  private let slots = DispatchSemaphore(value: slotCount)
  /// Seconds by which the server's clock is ahead of ours.
  private let skew = Mutex<Int64>(0)

  private static let slotCount = 64

  /// - Parameter clock: seconds since 1970.
  init(_ signer: S3Signer, clock: @escaping @Sendable () -> Int64, observe: @escaping @Sendable (BucketEvent) -> Void) {
    self.signer = signer
    self.clock = clock
    self.observe = observe
    client = HTTPClient(bodyByteLimit: 16 << 20)
  }

  /// Seconds since 1970 on the server's clock, as far as it is known.
  var now: Int64 { clock() + skew.withLock(\.self) }

  /// Sends a request whose repetition does no harm.
  /// - Throws: when the last attempt was refused, unanswered or answered wrongly.
  func send(_ request: S3Request, _ retry: S3Retry = .patient) throws(BucketFailure) -> HTTPClient.Response {
    try send(request, retry) { .success($0) }
  }

  /// - Parameter read: makes the result of an answer, or the reason to ask again.
  private func send<Value>(
    _ request: S3Request, _ retry: S3Retry, _ read: (HTTPClient.Response) -> Result<Value, BucketFailure>
  ) throws(BucketFailure) -> Value {
    var attempt = 0
    while true {
      attempt += 1
      let failure: BucketFailure
      var retryAfter: String?
      switch self.attempt(request, retry.attemptTime) {
      case .success(let response):
        let isNewTime = learnTime(from: response)
        if let contradiction = Self.contradiction(of: response, to: request) {
          failure = .wrong(contradiction)
        } else if (200...299).contains(response.status) {
          switch read(response) {
          case .success(let value): return value
          case .failure(let reason): failure = reason
          }
        } else {
          let refusal = S3Refusal(status: response.status, body: response.body)
          // An answer to HEAD has no code.
          let mayBeTime = refusal.code == "RequestTimeTooSkewed" || request.method == "HEAD" && response.status == 403
          if mayBeTime, isNewTime, attempt <= retry.attemptCount { continue }
          guard S3Retry.isPassing(refusal) else { throw .refused(refusal) }
          failure = .refused(refusal)
          retryAfter = response["retry-after"]
        }
      case .failure(let error):
        if case .badURL = error.kind { throw .wrong(error.reason) }
        failure = .unanswered(error.reason)
      }
      let chance = Double(SecureRandom.uint64() >> 11) / Double(1 << 53)
      guard let pause = retry.pause(after: attempt, retryAfter: retryAfter, chance: chance) else { throw failure }
      observe(.repetition)
      usleep(UInt32(pause / .microseconds(1)))
    }
  }

  /// Sends a request that stores or reads an object, or a part of one. An answer without its tag is a proxy's.
  func tagged(_ request: S3Request) throws(BucketFailure) -> (response: HTTPClient.Response, tag: String) {
    try send(request, .patient) { response in
      response["etag"].map { .success((response, $0)) } ?? .failure(.wrong("the answer has no tag"))
    }
  }

  /// Sends a request that is answered by a document. Servers begin such an answer with status 200, and end it with an
  /// error.
  /// - Parameter root: the name of the document. A proxy's page may be a document, too.
  func document(
    _ root: String, _ request: S3Request, _ retry: S3Retry = .patient
  ) throws(BucketFailure) -> XMLNode {
    try send(request, retry) { response in
      // Dropped because its text says no more.
      guard let node = try? XMLTree.parse(response.body) else { return .failure(.wrong("the answer is no document")) }
      if node.name == "Error" { return .failure(.refused(S3Refusal(status: 500, body: response.body))) }
      return node.name == root ? .success(node) : .failure(.wrong("the answer is no \(root)"))
    }
  }

  private func attempt(_ request: S3Request, _ time: Duration) -> Result<HTTPClient.Response, HTTPClientError> {
    slots.wait()
    defer { slots.signal() }
    let signed =
      if let time = request.decidedAt { signer.signed(request, at: time, for: S3Request.lifetime) } else {
        signer.signed(request, at: now)
      }
    let start = ContinuousClock.now
    let result = Result { () throws(HTTPClientError) in
      try client.sendAndWait(
        request.method, signed.url, headers: signed.headers.map { HTTPClient.Header($0.name, $0.value) },
        body: ["PUT", "POST"].contains(request.method) ? request.body : nil, timeout: time,
        isSentOnce: request.decidedAt != nil)
    }
    let response = try? result.get()
    observe(
      .attempt(
        method: request.method, status: response?.status, ContinuousClock.now - start, sent: request.body.count,
        received: response?.body.count ?? 0))
    return result
  }

  /// Takes the server's time for later signatures: those of requests that expire must not be ahead of it.
  /// - Returns: false when it was known, or nearly so.
  private func learnTime(from response: HTTPClient.Response) -> Bool {
    guard let time = response["date"].flatMap({ S3Date.seconds(ofHTTP: $0) }) else { return false }
    let found = time - clock()
    return skew.withLock { skew in
      defer { skew = found }
      return abs(skew - found) > 60
    }
  }

  /// Compares the checksum that the server computed with the one that was sent.
  private static func contradiction(of response: HTTPClient.Response, to request: S3Request) -> String? {
    let name = "x-amz-checksum-sha256"
    guard response.status == 200, let sent = request.headers[name], let stored = response[name], stored != sent else {
      return nil
    }
    return "the server stored other bytes than were sent"
  }
}
