// The console's pages: a folder of files that the gateway reads at its start and serves from memory.

import CDeflate
import Crypto
import Glibc
import HTTPServer
import ServiceKit

/// The files of the console by their path. Browsers keep them and ask each time whether they changed.
struct ConsoleSite: Sendable {
  struct File: Sendable {
    let content: [UInt8]
    /// nil: compression saves nothing.
    let compressed: [UInt8]?
    let contentType: String
    /// The hash of the content, in quotation marks.
    let entityTag: String

    init(_ content: [UInt8], contentType: String, _ compressor: GzipCompressor) async {
      self.content = content
      self.contentType = contentType
      compressed = contentType.hasPrefix("image/png") ? nil : await compressor.compressed(content)
      entityTag = "\"\(Hex.encode(Array(SHA256.hash(content).prefix(16))))\""
    }
  }

  private let files: [String: File]

  static let entry = "index.html"
  private static let fileLimit = 500
  private static let byteLimit = 16_000_000
  private static let depthLimit = 8

  /// The headers of every answer of the console: nothing but its own files runs, and no page shows it in a frame.
  static let protection: [(name: String, value: String)] = [
    (
      "Content-Security-Policy",
      "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; "
        + "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    ("X-Frame-Options", "DENY"), ("X-Content-Type-Options", "nosniff"), ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Resource-Policy", "same-origin"), ("Cross-Origin-Opener-Policy", "same-origin"),
  ]

  init(_ contents: [String: [UInt8]]) async {
    let compressor = GzipCompressor(level: 9)
    var files: [String: File] = [:]
    for (path, content) in contents {
      files[path] = await File(content, contentType: Self.contentType(of: path), compressor)
    }
    self.files = files
  }

  /// Reads a folder with its subfolders. Files whose name begins with a full stop are left out.
  /// - Throws: `ExitError` for a folder that can't be read, has no `index.html` or is too large.
  init(folder: String) async throws(ExitError) {
    var contents: [String: [UInt8]] = [:]
    var byteCount = 0
    try Self.read(folder, "", &contents, &byteCount, depth: 0)
    guard contents[Self.entry] != nil else {
      throw ExitError(.configuration, "--console: the folder '\(folder)' has no \(Self.entry).")
    }
    await self.init(contents)
  }

  /// The answer to a request for a file; nil when there is none.
  func response(to request: HTTPRequest) -> HTTPResponse? {
    let path = request.pathSegments.dropFirst().joined(separator: "/")
    guard let file = files[path.isEmpty ? Self.entry : path] else { return nil }
    var headers: [(name: String, value: String)] = [
      ("Cache-Control", "no-cache"), ("ETag", file.entityTag), ("Vary", "Accept-Encoding"),
    ]
    if request.header("if-none-match").map({ Self.names(file.entityTag, in: $0) }) == true {
      return HTTPResponse(status: 304, headers: headers)
    }
    headers.append(("Content-Type", file.contentType))
    guard let compressed = file.compressed, ContentCoding.prefersGzip(request.headers) else {
      return HTTPResponse(status: 200, headers: headers, body: .bytes(file.content))
    }
    headers.append(("Content-Encoding", "gzip"))
    return HTTPResponse(status: 200, headers: headers, body: .bytes(compressed))
  }

  /// A proxy that compresses an answer makes its tag a weak one.
  private static func names(_ tag: String, in header: String) -> Bool {
    header.split(separator: ",").contains { candidate in
      let candidate = candidate.trimmingSpaces()
      return candidate == tag || candidate == "*" || candidate == "W/\(tag)"
    }
  }

  private static func contentType(of path: String) -> String {
    switch path.split(separator: ".").last {
    case "html": "text/html; charset=utf-8"
    case "js", "mjs": "text/javascript; charset=utf-8"
    case "css": "text/css; charset=utf-8"
    case "svg": "image/svg+xml"
    case "png": "image/png"
    case "ico": "image/vnd.microsoft.icon"
    case "json", "map": "application/json"
    case "woff2": "font/woff2"
    default: "text/plain; charset=utf-8"
    }
  }

  /// - Parameter byteCount: of all contents so far.
  private static func read(
    _ folder: String, _ prefix: String, _ contents: inout [String: [UInt8]], _ byteCount: inout Int, depth: Int
  ) throws(ExitError) {
    guard depth < depthLimit, let directory = opendir(folder) else {
      throw ExitError(.configuration, "--console: the folder '\(folder)' can't be read.")
    }
    defer { closedir(directory) }
    while let entry = readdir(directory) {
      let name = withUnsafeBytes(of: entry.pointee.d_name) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
      if name.hasPrefix(".") { continue }
      let path = "\(folder)/\(name)"
      var status = stat()
      guard stat(path, &status) == 0 else {
        throw ExitError(.configuration, "--console: '\(path)' can't be read.")
      }
      if status.st_mode & S_IFMT == S_IFDIR {
        try read(path, prefix + name + "/", &contents, &byteCount, depth: depth + 1)
        continue
      }
      let content = try content(of: path)
      contents[prefix + name] = content
      byteCount += content.count
      guard contents.count <= fileLimit, byteCount <= byteLimit else {
        throw ExitError(
          .configuration,
          "--console: the folder has more than \(fileLimit) files or \(byteLimit) bytes: is it the console's?")
      }
    }
  }

  private static func content(of path: String) throws(ExitError) -> [UInt8] {
    guard let file = fopen(path, "re") else { throw ExitError(.configuration, "--console: '\(path)' can't be read.") }
    defer { fclose(file) }
    var content: [UInt8] = []
    var buffer = [UInt8](repeating: 0, count: 65_536)
    while case let count = fread(&buffer, 1, buffer.count, file), count > 0 {
      content += buffer[..<count]
      if content.count > byteLimit { break }
    }
    // Half a file must not be served as a whole one.
    guard ferror(file) == 0 else { throw ExitError(.configuration, "--console: '\(path)' can't be read.") }
    return content
  }
}
