// The share service's questions to every process about its own recent figures and log lines.

/// Asks for a process's figures; the answer's body is JSON.
///
/// Without a span: `{"version","values":{name:number}}`, the latest second. With one:
/// `{"series":{name:[number or null]}}`, each with `count` means over `step`.
public struct FetchFigures: Message {
  public static let name = "process.figures/1"
  public static let senders: Set<Role> = [.share]
  public static let isRepeatable = true
  public typealias Reply = Acknowledgement

  /// Milliseconds since 1970, and milliseconds.
  public struct Span: Hashable, Codable, Sendable {
    public let start: Int64
    public let step: Int64
    public let count: Int

    public init(start: Int64, step: Int64, count: Int) {
      self.start = start
      self.step = step
      self.count = count
    }
  }

  public let span: Span?
  /// The names of the wanted values; empty: all.
  public let names: [String]

  public init(span: Span? = nil, names: [String] = []) {
    self.span = span
    self.names = names
  }
}

/// Asks for a process's latest log lines; the answer's body is JSON:
/// `{"lines":[{"at","level","event","request","facts":{}}]}`, oldest first.
public struct FetchLog: Message {
  public static let name = "process.log/1"
  public static let senders: Set<Role> = [.share]
  public static let isRepeatable = true
  public typealias Reply = Acknowledgement

  /// Only lines about this request; nil: all.
  public let request: String?
  /// The least level: `debug`, `info`, `warning` or `error`.
  public let level: String
  /// Only lines about slow requests.
  public let isSlow: Bool
  /// Only lines that are later, in milliseconds since 1970.
  public let after: Int64
  /// The most lines, the latest ones.
  public let limit: Int

  public init(request: String?, level: String, isSlow: Bool, after: Int64, limit: Int) {
    self.request = request
    self.level = level
    self.isSlow = isSlow
    self.after = after
    self.limit = limit
  }
}
