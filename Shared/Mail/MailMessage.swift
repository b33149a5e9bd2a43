// A mail as its sender composes it, and the headers that receivers see.

/// A mail to one person, as plain text and as HTML.
public struct MailMessage: Hashable, Sendable {
  public var from: MailAddress
  /// The sender's name; nil: the address stands alone.
  public var fromName: String?
  public var to: MailAddress
  public var subject: String
  public var text: String
  public var html: String
  /// The mail's own name, without angle brackets. A receiver that gets it twice keeps one.
  public var messageID: String
  /// By RFC 5322, such as `Thu, 26 Nov 2026 09:00:00 +0000`.
  public var date: String
  /// A page on which the receiver asks for no more; it takes a POST, too (RFC 8058).
  public var refusalURL: String

  public init(
    from: MailAddress, fromName: String?, to: MailAddress, subject: String, text: String, html: String,
    messageID: String, date: String, refusalURL: String
  ) {
    self.from = from
    self.fromName = fromName
    self.to = to
    self.subject = subject
    self.text = text
    self.html = html
    self.messageID = messageID
    self.date = date
    self.refusalURL = refusalURL
  }

  /// Each is ASCII, if identifier, date and URL are, in one line or folded.
  var headers: [String] {
    [
      "From: \(fromName.map { HeaderText.phrase($0) + " " } ?? "")<\(from)>", "To: <\(to)>",
      "Subject: \(HeaderText.encoded(subject))", "Date: \(date)", "Message-ID: <\(messageID)>",
      // No program shall answer it.
      "Auto-Submitted: auto-generated", "List-Unsubscribe: <\(refusalURL)>",
      "List-Unsubscribe-Post: List-Unsubscribe=One-Click",
    ]
  }
}
