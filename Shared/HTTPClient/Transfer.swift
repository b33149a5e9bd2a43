// One request in progress: a libcurl easy handle and the answer so far. Lives on the transfer loop's thread only.

import CCurl
import Synchronization

/// A request and its limits.
struct TransferRequest: Sendable {
  let method: String
  let url: String
  let headers: [HTTPClient.Header]
  let body: [UInt8]?
  /// The time until the end of the answer, or of its head for a stream.
  var timeout: Duration
  let bodyByteLimit: Int
  var idleTimeout: Duration?
  var acceptsGzip = false
  /// Goes by a connection of its own. On one that it kept, libcurl sends a request again if it ends before an answer.
  var isSentOnce = false
  /// The person or program on whose behalf a stranger's host is called.
  var party: String?
  /// Addresses of the host, as `CURLOPT_RESOLVE` takes them; none lets libcurl resolve its name.
  var addresses: [String] = []
}

/// The receiver of an answer. It gets exactly one success or failure.
enum TransferSink: Sendable {
  typealias Answer<Value> = CheckedContinuation<Result<Value, HTTPClientError>, Never>

  case whole(@Sendable (Result<HTTPClient.Response, HTTPClientError>) -> Void)
  case stream(Answer<HTTPClient.Head>, AsyncThrowingStream<[UInt8], any Error>.Continuation)

  /// - Parameter hasHead: true once a stream's head was told.
  func fail(_ error: HTTPClientError, hasHead: Bool = false) {
    switch self {
    case .whole(let answer): answer(.failure(error))
    case .stream(let answer, let chunks):
      if !hasHead { answer.resume(returning: .failure(error)) }
      chunks.finish(throwing: error)
    }
  }
}

/// Identifies one transfer. Its flag is set before the loop is told, so a cancellation that overtakes the start still
/// counts.
final class Ticket: Sendable {
  let isCancelled = Atomic<Bool>(false)
}

final class Transfer {
  let handle: UnsafeMutableRawPointer
  let ticket: Ticket
  /// The deadline for the head of a stream.
  let headDeadline: ContinuousClock.Instant
  private let sink: TransferSink
  private let bodyByteLimit: Int
  private var headerList: UnsafeMutablePointer<curl_slist>?
  private var addressList: UnsafeMutablePointer<curl_slist>?
  private var head = HTTPClient.Head()
  private var body: [UInt8] = []
  private var hasHead = false
  private var isTooLarge = false
  /// Of heads and trailers.
  private var lineByteCount = 0
  /// libcurl keeps each line until the transfer's end, and bounds no trailers.
  private static let lineByteLimit = 64 * 1024

  var isWaitingForHead: Bool { !hasHead }
  private var isStream: Bool { if case .stream = sink { true } else { false } }

  init(
    _ request: TransferRequest, _ sink: TransferSink, _ ticket: Ticket, _ configuration: TransferLoop.Configuration
  ) {
    guard let handle = curl_easy_init() else { preconditionFailure("libcurl has no memory for a transfer") }
    self.handle = handle
    self.sink = sink
    self.ticket = ticket
    bodyByteLimit = request.bodyByteLimit
    headDeadline = ContinuousClock.now + request.timeout
    configure(request, configuration)
  }

  /// Before this runs, the loop removes the handle from libcurl's multi handle.
  deinit {
    curl_easy_cleanup(handle)
    curl_slist_free_all(headerList)
    curl_slist_free_all(addressList)
  }

  private func configure(_ request: TransferRequest, _ configuration: TransferLoop.Configuration) {
    // These options fail only when memory is short, so the results go unchecked. The transfer reports a bad URL or
    // method.
    ccurl_set_string(handle, CURLOPT_URL, request.url)
    // A segment of dots can be a name, and no step.
    ccurl_set_long(handle, CURLOPT_PATH_AS_IS, 1)
    ccurl_set_string(handle, CURLOPT_PROTOCOLS_STR, "http,https")
    ccurl_set_string(handle, CURLOPT_NOPROXY, "*")
    ccurl_set_long(handle, CURLOPT_FOLLOWLOCATION, 0)
    ccurl_set_long(handle, CURLOPT_NOSIGNAL, 1)
    ccurl_set_long(handle, CURLOPT_TCP_NODELAY, 1)
    if let file = configuration.certificateAuthorityFile { ccurl_set_string(handle, CURLOPT_CAINFO, file) }
    if request.acceptsGzip { ccurl_set_string(handle, CURLOPT_ACCEPT_ENCODING, "gzip") }
    if let address = configuration.localAddress { ccurl_set_string(handle, CURLOPT_INTERFACE, "host!\(address)") }
    for entry in request.addresses { addressList = curl_slist_append(addressList, entry) }
    if addressList != nil { ccurl_set_pointer(handle, CURLOPT_RESOLVE, addressList) }
    if configuration.reach == .publicAddresses { ccurl_set_opener(handle, openPublicSocket) }
    if request.isSentOnce { ccurl_set_long(handle, CURLOPT_FRESH_CONNECT, 1) }
    if configuration.sharesConnections { ccurl_set_long(handle, CURLOPT_PIPEWAIT, 1) }
    if isStream {
      ccurl_set_long(handle, CURLOPT_CONNECTTIMEOUT_MS, request.timeout.milliseconds)
      if let idle = request.idleTimeout {
        ccurl_set_long(handle, CURLOPT_LOW_SPEED_LIMIT, 1)
        ccurl_set_long(handle, CURLOPT_LOW_SPEED_TIME, max(1, Int(idle.components.seconds)))
      }
    } else {
      ccurl_set_long(handle, CURLOPT_TIMEOUT_MS, request.timeout.milliseconds)
    }
    configureContent(request)
    let context = Unmanaged.passUnretained(self).toOpaque()
    ccurl_set_pointer(handle, CURLOPT_PRIVATE, context)
    ccurl_set_pointer(handle, CURLOPT_WRITEDATA, context)
    ccurl_set_pointer(handle, CURLOPT_HEADERDATA, context)
    ccurl_set_receiver(handle, CURLOPT_WRITEFUNCTION, bodyReceiver)
    ccurl_set_receiver(handle, CURLOPT_HEADERFUNCTION, headerReceiver)
  }

  private func configureContent(_ request: TransferRequest) {
    if request.method == "HEAD" {
      ccurl_set_long(handle, CURLOPT_NOBODY, 1)
    } else {
      // A POST without a body still announces its length.
      if let body = request.body ?? (["POST", "PUT", "PATCH"].contains(request.method) ? [] : nil) {
        ccurl_set_offset(handle, CURLOPT_POSTFIELDSIZE_LARGE, curl_off_t(body.count))
        body.withUnsafeBytes { bytes in
          _ = ccurl_set_pointer(handle, CURLOPT_COPYPOSTFIELDS, bytes.baseAddress ?? UnsafeRawPointer(handle))
        }
      }
      ccurl_set_string(handle, CURLOPT_CUSTOMREQUEST, request.method)
    }
    // An empty line prevents libcurl from adding this header on its own.
    var lines = ["Expect:"]
    if !request.headers.contains(where: { $0.name.lowercased() == "content-type" }) { lines.append("Content-Type:") }
    // libcurl drops a header with an empty value unless a semicolon ends its name.
    lines += request.headers.map { $0.value.isEmpty ? "\($0.name);" : "\($0.name): \($0.value)" }
    for line in lines { headerList = curl_slist_append(headerList, line) }
    ccurl_set_pointer(handle, CURLOPT_HTTPHEADER, headerList)
  }

  // MARK: What arrives

  /// Takes a piece of the body.
  /// - Returns: false to end the transfer, because the answer is too large.
  fileprivate func receive(_ bytes: UnsafeBufferPointer<UInt8>) -> Bool {
    if case .stream(_, let chunks) = sink {
      if case .dropped = chunks.yield([UInt8](bytes)) { isTooLarge = true }
    } else if body.count + bytes.count > bodyByteLimit {
      isTooLarge = true
    } else {
      // Raw: the linker gives all modules one copy of the typed append, and this module's is slower than JSON's.
      body.append(contentsOf: UnsafeRawBufferPointer(bytes))
    }
    return !isTooLarge
  }

  /// Takes one line of a head or of the trailers, with its line end. The head of an interim answer (1xx) is followed by
  /// another head.
  /// - Returns: false to end the transfer, because the answer is too large.
  fileprivate func receiveHeader(_ bytes: UnsafeBufferPointer<UInt8>) -> Bool {
    lineByteCount += bytes.count
    if lineByteCount > Self.lineByteLimit { isTooLarge = true } else if !hasHead { readHeader(bytes) }
    return !isTooLarge
  }

  private func readHeader(_ bytes: UnsafeBufferPointer<UInt8>) {
    let line = String(decoding: bytes.prefix { $0 != UInt8(ascii: "\r") && $0 != UInt8(ascii: "\n") }, as: UTF8.self)
    if line.hasPrefix("HTTP/") {
      head = HTTPClient.Head(status: line.split(separator: " ").dropFirst().first.flatMap { Int($0) } ?? 0)
    } else if let colon = line.firstIndex(of: ":") {
      let value = line[line.index(after: colon)...].drop { $0 == " " || $0 == "\t" }
      head.headers.append(HTTPClient.Header(String(line[..<colon]), String(value)))
    } else if line.isEmpty, head.status >= 200 {
      hasHead = true
      if case .stream(let answer, _) = sink { answer.resume(returning: .success(head)) }
    }
  }

  // MARK: The end

  /// Called once, with libcurl's result.
  func finish(_ result: CURLcode) {
    guard result == CURLE_OK else {
      return fail(HTTPClientError(result, wasSent: ccurl_was_sent(handle), isTooLarge: isTooLarge))
    }
    guard hasHead else {
      let reason = "The server closed the connection without an answer."
      return fail(HTTPClientError(kind: .lost, reason: reason, wasSent: true))
    }
    switch sink {
    case .whole(let answer): answer(.success(HTTPClient.Response(head: head, body: body)))
    case .stream(_, let chunks): chunks.finish()
    }
  }

  /// Called once, instead of `finish`.
  func fail(_ error: HTTPClientError) { sink.fail(error, hasHead: hasHead) }
}

extension HTTPClientError {
  static let cancelled = HTTPClientError(kind: .cancelled, reason: "The request was cancelled.")
  static let headTimedOut = HTTPClientError(kind: .timedOut, reason: "The server did not answer in time.")

  init(_ result: CURLcode, wasSent: Bool, isTooLarge: Bool) {
    let reason = String(cString: curl_easy_strerror(result))
    defer { (security, self.wasSent) = (Security(result), wasSent) }
    switch result {
    case _ where isTooLarge:
      self.init(kind: .tooLarge, reason: "The answer is larger than the limit, or its reader too slow.")
    case CURLE_OPERATION_TIMEDOUT: self.init(kind: .timedOut, reason: reason)
    // libcurl reports an answer that is no HTTP as an unsupported protocol as well.
    case _ where wasSent: self.init(kind: .lost, reason: reason)
    case CURLE_UNSUPPORTED_PROTOCOL, CURLE_URL_MALFORMAT: self.init(kind: .badURL, reason: reason)
    case CURLE_COULDNT_RESOLVE_HOST, CURLE_COULDNT_CONNECT, CURLE_SSL_CONNECT_ERROR, CURLE_PEER_FAILED_VERIFICATION,
      CURLE_SSL_CACERT_BADFILE:
      self.init(kind: .unreachable, reason: reason)
    default: self.init(kind: .lost, reason: reason)
    }
  }
}

extension HTTPClientError.Security {
  fileprivate init?(_ result: CURLcode) {
    switch result {
    case CURLE_PEER_FAILED_VERIFICATION: self = .untrusted
    case CURLE_SSL_CACERT_BADFILE: self = .badAuthorities
    case CURLE_SSL_CONNECT_ERROR: self = .noTLS
    default: return nil
    }
  }
}

extension Duration {
  /// Rounded up and at least 1, because libcurl reads 0 as "no limit".
  fileprivate var milliseconds: Int {
    let (seconds, attoseconds) = components
    return max(1, Int(seconds) * 1000 + Int((attoseconds + 999_999_999_999_999) / 1_000_000_000_000_000))
  }
}

// libcurl calls these on the loop's thread, from within `curl_multi_perform`.

private func bodyReceiver(
  _ bytes: UnsafeMutablePointer<CChar>?, _ size: Int, _ count: Int, _ context: UnsafeMutableRawPointer?
) -> Int {
  guard let context else { return 0 }
  let transfer = Unmanaged<Transfer>.fromOpaque(context).takeUnretainedValue()
  return transfer.receive(received(bytes, size * count)) ? size * count : 0
}

private func headerReceiver(
  _ bytes: UnsafeMutablePointer<CChar>?, _ size: Int, _ count: Int, _ context: UnsafeMutableRawPointer?
) -> Int {
  guard let context else { return 0 }
  let transfer = Unmanaged<Transfer>.fromOpaque(context).takeUnretainedValue()
  return transfer.receiveHeader(received(bytes, size * count)) ? size * count : 0
}

private func received(_ bytes: UnsafeMutablePointer<CChar>?, _ count: Int) -> UnsafeBufferPointer<UInt8> {
  UnsafeBufferPointer(start: UnsafeRawPointer(bytes)?.assumingMemoryBound(to: UInt8.self), count: count)
}
