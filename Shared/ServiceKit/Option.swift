// Declares each setting of a process once. Parsing, checks, help and the names of environment variables derive from it.

internal import HTTPServer
import OptionWords
internal import S3

/// One setting of a process: `--name VALUE`, `--name=VALUE`, or its environment variable.
public struct Option: Sendable {
  public enum Kind: Sendable {
    case text
    case flag
    case integer(ClosedRange<Int>)
    /// Seconds, with decimals.
    case seconds(ClosedRange<Double>)
    case choice([String])
    case path
    /// A folder, or `s3://bucket/prefix?…`.
    case assets
    /// `host:port`; the host may be an IPv6 address in brackets.
    case address
    /// `http://…` or `https://…`. `Options.url` removes a final slash.
    case url
    /// IP addresses and networks, separated by commas.
    case networks
    /// A ZeroMQ endpoint: `tcp://host:port` or `ipc:///path`.
    case endpoint
    /// ZeroMQ endpoints, separated by commas.
    case endpoints
    /// A text that can also come from the file that `<variable>_FILE` names, so that no process list shows it.
    case secret
  }

  /// Lower case with hyphens, without the two leading ones.
  public let name: String
  public let kind: Kind
  /// Parsed like a given value; nil for no default.
  public let defaultValue: String?
  public let isRequired: Bool
  /// `AQUIFER_…`
  public let variable: String
  /// One or two sentences.
  public let help: String

  /// - Parameters:
  ///   - defaultValue: nil leaves the option without a value unless it is given.
  ///   - isRequired: whether it must be given. Only useful without a default.
  ///   - variable: nil for `AQUIFER_` and the name in upper case.
  public init(
    _ name: String, _ kind: Kind, default defaultValue: String? = nil, isRequired: Bool = false,
    variable: String? = nil, help: String
  ) {
    self.name = name
    self.kind = kind
    self.defaultValue = defaultValue
    self.isRequired = isRequired
    self.variable = variable ?? "AQUIFER_" + name.uppercased().map { $0 == "-" ? "_" : String($0) }.joined()
    self.help = help
  }

  /// The placeholder for the value in the help.
  var placeholder: String {
    switch kind {
    case .text: "TEXT"
    case .flag: ""
    case .integer: "N"
    case .seconds: "SECONDS"
    case .choice(let words): words.joined(separator: "|")
    case .path: "PATH"
    case .assets: "PATH|s3://BUCKET"
    case .address: "HOST:PORT"
    case .url: "URL"
    case .networks: "NETWORKS"
    case .endpoint: "ENDPOINT"
    case .endpoints: "ENDPOINT[,ENDPOINT]"
    case .secret: "SECRET"
    }
  }

  var form: OptionReader.Form {
    if case .flag = kind { .flag(takesValue: true) } else { .value(placeholder) }
  }

  /// A description of valid values; nil when `value` is valid.
  func expectation(of value: String) -> String? {
    switch kind {
    case .text, .secret: return value.isEmpty ? "some text" : nil
    case .path: return value.isEmpty || value.utf8.contains(0) ? "a path" : nil
    case .assets: return Self.assetsExpectation(of: value)
    case .flag: return Self.flag(value) == nil ? "true or false" : nil
    case .integer(let range):
      return Int(value).map(range.contains) == true
        ? nil : "a whole number from \(range.lowerBound) to \(range.upperBound)"
    case .seconds(let range):
      let seconds = Double(value)
      return seconds.map(range.contains) == true
        ? nil : "a number of seconds from \(range.lowerBound) to \(range.upperBound)"
    case .choice(let words): return words.contains(value) ? nil : "one of \(words.joined(separator: ", "))"
    case .address: return SocketAddress(value) == nil ? "host:port, such as 127.0.0.1:8080 (port 0: any free one)" : nil
    case .url: return Self.isURL(value) ? nil : "a URL such as http://192.0.2.1:8080"
    case .networks: return NetworkList(value) == nil ? "addresses and networks such as 127.0.0.1,10.0.0.0/8" : nil
    case .endpoint:
      return Self.isEndpoint(value)
        ? nil : "a ZeroMQ endpoint such as tcp://127.0.0.1:5550 or ipc:///run/aquifer/share.sock"
    case .endpoints:
      return Self.endpoints(of: value).allSatisfy(Self.isEndpoint)
        ? nil : "ZeroMQ endpoints such as tcp://192.0.2.1:5550,tcp://192.0.2.2:5550"
    }
  }

  private static func assetsExpectation(of value: String) -> String? {
    guard value.hasPrefix(S3Location.scheme) else { return value.isEmpty || value.utf8.contains(0) ? "a path" : nil }
    do throws(S3Location.Fault) {
      _ = try S3Location(value)
      return nil
    } catch {
      return "a folder or s3://bucket/prefix?endpoint=URL&region=NAME&public=URL, and it \(error.reason)"
    }
  }

  static func flag(_ value: String) -> Bool? {
    switch value.lowercased() {
    case "true", "yes", "on", "1": true
    case "false", "no", "off", "0": false
    default: nil
    }
  }

  private static func isURL(_ value: String) -> Bool {
    for scheme in ["http://", "https://"] where value.hasPrefix(scheme) {
      let rest = value.dropFirst(scheme.count)
      return !rest.isEmpty && !rest.hasPrefix("/") && rest.utf8.allSatisfy { (0x21...0x7e).contains($0) }
    }
    return false
  }

  /// The endpoints of a list. A comma within a path separates nothing.
  static func endpoints(of value: String) -> [String] {
    value.split(separator: ",", omittingEmptySubsequences: false).reduce(into: []) { endpoints, part in
      if let last = endpoints.indices.last, endpoints[last].hasPrefix("ipc://"), !part.hasPrefix("ipc://"),
        !part.hasPrefix("tcp://")
      {
        endpoints[last] += "," + part
      } else {
        endpoints.append(String(part))
      }
    }
  }

  private static func isEndpoint(_ value: String) -> Bool {
    if value.hasPrefix("ipc://") { return value.count > "ipc://".count }
    guard value.hasPrefix("tcp://") else { return false }
    let rest = value.dropFirst("tcp://".count)
    guard let colon = rest.lastIndex(of: ":"), colon > rest.startIndex, !rest.contains(",") else { return false }
    let port = rest[rest.index(after: colon)...]
    return port == "*" || UInt16(port) != nil
  }
}

/// A host and a port.
public struct SocketAddress: Hashable, Sendable {
  /// An IPv6 address has no brackets here.
  public let host: String
  public let port: UInt16

  public init?(_ text: String) {
    guard let colon = text.lastIndex(of: ":"), let port = UInt16(text[text.index(after: colon)...]) else { return nil }
    var host = text[..<colon]
    if host.hasPrefix("["), host.hasSuffix("]") {
      host = host.dropFirst().dropLast()
    } else if host.contains(":") {
      return nil
    }
    guard !host.isEmpty else { return nil }
    self.host = String(host)
    self.port = port
  }

  /// The URL at which clients on this machine reach an HTTP server that listens on a host and port.
  public static func url(_ host: String, _ port: UInt16, scheme: String = "http") -> String {
    // A server on a wildcard address is reached at the loopback address.
    let host = ["0.0.0.0", "::", "localhost"].contains(host) ? "127.0.0.1" : host
    return "\(scheme)://\(host.contains(":") ? "[\(host)]" : host):\(port)"
  }
}
