// Hands mails to a mail server by libcurl's SMTP.

import CCurl
import Synchronization

/// A mail that a server did not take.
public struct MailError: Error, Hashable, Sendable {
  public enum Kind: Hashable, Sendable {
    /// The server is away, busy, or refuses the sender or their credentials; the same mail may be taken later.
    case later
    /// The server refused this receiver or this mail for good (5yz).
    case refused
  }

  public let kind: Kind
  /// One sentence, with the server's code where it gave one.
  public let reason: String

  public init(kind: Kind, reason: String) {
    self.kind = kind
    self.reason = reason
  }
}

/// A server that takes mails from this installation.
public struct MailServer: Hashable, Sendable {
  /// `smtps://HOST:PORT`; `smtp://HOST:PORT` for a server that begins TLS by STARTTLS.
  public let url: String
  /// nil: the server asks for no credentials.
  public let user: String?
  public let password: String?
  /// Authorities to trust in PEM; nil: the system's.
  public var authorityFile: String?

  public init(url: String, user: String?, password: String?, authorityFile: String? = nil) {
    self.url = url
    self.user = user
    self.password = password
    self.authorityFile = authorityFile
  }

  /// True for a server on this machine: only there mail goes without TLS, or with a certificate that proves nothing.
  private var isLocal: Bool {
    url.hasPrefix("smtp://127.0.0.1:") || url == "smtp://127.0.0.1" || url.hasPrefix("smtp://localhost:")
      || url == "smtp://localhost"
  }

  /// Ends a conversation from another thread, within a second.
  public final class Stop: Sendable {
    fileprivate let isSet = Atomic(false)

    public init() {}

    public func set() { isSet.store(true, ordering: .relaxed) }
  }

  /// Hands a mail over and blocks the thread until the server has answered. Tasks' threads must not call it.
  /// - Parameters:
  ///   - timeout: in seconds, for the whole conversation.
  ///   - stop: ends it; the server may have the mail then.
  public func send(_ message: MailMessage, timeout: Int = 30, until stop: Stop = Stop()) throws(MailError) {
    guard let handle = curl_easy_init() else { throw MailError(kind: .later, reason: "libcurl has no memory") }
    defer { curl_easy_cleanup(handle) }
    // These options fail only when memory is short, and then the transfer fails, too.
    ccurl_set_string(handle, CURLOPT_URL, url)
    ccurl_set_string(handle, CURLOPT_PROTOCOLS_STR, "smtp,smtps")
    ccurl_set_string(handle, CURLOPT_NOPROXY, "*")
    ccurl_set_long(handle, CURLOPT_NOSIGNAL, 1)
    ccurl_set_long(handle, CURLOPT_TIMEOUT, timeout)
    ccurl_set_watcher(handle, isStopped, Unmanaged.passUnretained(stop).toOpaque())
    ccurl_set_long(handle, CURLOPT_USE_SSL, Int(isLocal ? CURLUSESSL_TRY.rawValue : CURLUSESSL_ALL.rawValue))
    if isLocal {
      // Mail servers come with a certificate that nobody signed, and begin TLS where they ask for a password.
      ccurl_set_long(handle, CURLOPT_SSL_VERIFYPEER, 0)
      ccurl_set_long(handle, CURLOPT_SSL_VERIFYHOST, 0)
    }
    if let authorityFile { ccurl_set_string(handle, CURLOPT_CAINFO, authorityFile) }
    if let user, let password {
      ccurl_set_string(handle, CURLOPT_USERNAME, user)
      ccurl_set_string(handle, CURLOPT_PASSWORD, password)
    }
    ccurl_set_string(handle, CURLOPT_MAIL_FROM, "<\(message.from)>")
    let receivers = curl_slist_append(nil, "<\(message.to)>")
    defer { curl_slist_free_all(receivers) }
    ccurl_set_pointer(handle, CURLOPT_MAIL_RCPT, receivers)
    var headers: UnsafeMutablePointer<curl_slist>?
    for header in message.headers { headers = curl_slist_append(headers, header) }
    defer { curl_slist_free_all(headers) }
    ccurl_set_pointer(handle, CURLOPT_HTTPHEADER, headers)
    let content = curl_mime_init(handle)
    defer { curl_mime_free(content) }
    Self.add(message, to: content, handle)
    ccurl_set_pointer(handle, CURLOPT_MIMEPOST, content.map { UnsafeRawPointer($0) })
    let conversation = Conversation()
    ccurl_set_listener(handle, noteLine, Unmanaged.passUnretained(conversation).toOpaque())
    let result = withExtendedLifetime((stop, conversation)) { curl_easy_perform(handle) }
    try Self.check(result, handle, conversation)
  }

  /// Plain text first: readers show the last form that they understand.
  private static func add(_ message: MailMessage, to content: OpaquePointer?, _ handle: UnsafeMutableRawPointer) {
    let forms = curl_mime_init(handle)
    for (type, text) in [("text/plain; charset=utf-8", message.text), ("text/html; charset=utf-8", message.html)] {
      let part = curl_mime_addpart(forms)
      curl_mime_data(part, text, text.utf8.count)
      curl_mime_type(part, type)
      curl_mime_encoder(part, "base64")
    }
    let part = curl_mime_addpart(content)
    curl_mime_subparts(part, forms)
    curl_mime_type(part, "multipart/alternative")
  }

  private static func check(_ result: CURLcode, _ handle: UnsafeMutableRawPointer, _ conversation: Conversation)
    throws(MailError)
  {
    guard result != CURLE_OK else { return }
    let code = ccurl_response_code(handle)
    let reason = String(cString: curl_easy_strerror(result))
    // A wrong password or sender is the operator's mistake, and no property of the mail or its receiver.
    let isRefused =
      (500...599).contains(code) && conversation.hasNamedReceiver
      && EnhancedStatus(ofAnswer: conversation.answer)?.isOfSender != true
    throw MailError(kind: isRefused ? .refused : .later, reason: code == 0 ? reason : "\(reason) (\(code))")
  }
}

/// How far a conversation has come; used by the thread that sends.
private final class Conversation {
  var hasNamedReceiver = false
  /// The last line of the server's, before the conversation's end.
  var answer: [UInt8] = []
  private var isOver = false

  func noteCommand(_ line: UnsafeRawBufferPointer) {
    if line.starts(with: "RCPT ".utf8) { hasNamedReceiver = true }
    if line.starts(with: "QUIT".utf8) { isOver = true }
  }

  func noteAnswer(_ line: UnsafeRawBufferPointer) { if !isOver { answer = Array(line) } }
}

/// Called by libcurl with each line of both sides.
private func noteLine(
  _: UnsafeMutableRawPointer?, _ kind: curl_infotype, _ bytes: UnsafeMutablePointer<CChar>?, _ count: Int,
  _ context: UnsafeMutableRawPointer?
) -> Int32 {
  guard let context, let bytes else { return 0 }
  let conversation = Unmanaged<Conversation>.fromOpaque(context).takeUnretainedValue()
  let line = UnsafeRawBufferPointer(start: bytes, count: count)
  switch kind {
  case CURLINFO_HEADER_OUT: conversation.noteCommand(line)
  case CURLINFO_HEADER_IN: conversation.noteAnswer(line)
  default: break
  }
  return 0
}

/// Called by libcurl about once a second; any number but 0 ends the transfer.
private func isStopped(_ context: UnsafeMutableRawPointer?, _: curl_off_t, _: curl_off_t, _: curl_off_t, _: curl_off_t)
  -> Int32
{
  guard let context else { return 0 }
  return Unmanaged<MailServer.Stop>.fromOpaque(context).takeUnretainedValue().isSet.load(ordering: .relaxed) ? 1 : 0
}
