// The XML that buckets answer and are sent.

public import XML

/// An object in a list.
public struct S3Object: Hashable, Sendable {
  /// The whole key.
  public let key: String
  public let byteCount: Int64
}

/// A page of a list of objects, in the order of their keys.
public struct S3List: Hashable, Sendable {
  public let objects: [S3Object]
  /// The beginnings of further keys up to the delimiter that was asked for.
  public let prefixes: [String]
  /// Continues the list; nil at its end.
  public let continuation: String?

  /// The name of the document.
  public static let root = "ListBucketResult"

  /// - Returns: nil for another document.
  public init?(_ node: XMLNode) {
    guard node.name == Self.root else { return nil }
    var objects: [S3Object] = []
    for child in node.children(named: "Contents") {
      guard let key = child.value("Key"), let count = child.value("Size").flatMap({ Int64($0) }) else { return nil }
      objects.append(S3Object(key: key, byteCount: count))
    }
    self.objects = objects
    prefixes = node.children(named: "CommonPrefixes").compactMap { $0.value("Prefix") }
    continuation = node.value("IsTruncated") == "true" ? node.value("NextContinuationToken") : nil
  }
}

/// An upload in parts that is neither complete nor aborted.
public struct S3Upload: Hashable, Sendable {
  /// A part that the server has.
  public struct Part: Hashable, Sendable {
    public let tag: String
    /// The SHA-256 in base64; nil for a part that was copied within the bucket.
    public let checksum: String?

    public init(tag: String, checksum: String?) {
      self.tag = tag
      self.checksum = checksum
    }
  }

  public let key: String
  public let id: String
  /// Seconds since 1970; nil when no list tells it.
  public let begin: Int64?

  public init(key: String, id: String, begin: Int64? = nil) {
    self.key = key
    self.id = id
    self.begin = begin
  }

  /// The document that ends an upload.
  /// - Parameter parts: in the order of the content, the first being part 1.
  public static func completion(_ parts: [Part]) -> [UInt8] {
    let items = parts.enumerated().map { index, part in
      "<Part><PartNumber>\(index + 1)</PartNumber><ETag>\(escaped(part.tag))</ETag>"
        + (part.checksum.map { "<ChecksumSHA256>\($0)</ChecksumSHA256>" } ?? "") + "</Part>"
    }
    return Array("<CompleteMultipartUpload>\(items.joined())</CompleteMultipartUpload>".utf8)
  }

  /// The document that deletes objects and is answered with failures only.
  public static func deletion(_ keys: [String]) -> [UInt8] {
    let items = keys.map { "<Object><Key>\(escaped($0))</Key></Object>" }
    return Array("<Delete><Quiet>true</Quiet>\(items.joined())</Delete>".utf8)
  }

  private static func escaped(_ text: String) -> String {
    text.map { character in
      switch character {
      case "&": "&amp;"
      case "<": "&lt;"
      case ">": "&gt;"
      case "\"": "&quot;"
      default: String(character)
      }
    }.joined()
  }
}

/// A page of a list of uploads.
public struct S3UploadList: Hashable, Sendable {
  public let uploads: [S3Upload]
  /// The query that continues the list; nil at its end.
  public let continuation: [String: String]?

  /// The name of the document.
  public static let root = "ListMultipartUploadsResult"

  /// - Returns: nil for another document.
  public init?(_ node: XMLNode) {
    guard node.name == Self.root else { return nil }
    uploads = node.children(named: "Upload").compactMap { child in
      guard let key = child.value("Key"), let id = child.value("UploadId") else { return nil }
      return S3Upload(key: key, id: id, begin: child.value("Initiated").flatMap { S3Date.seconds(ofXML: $0) })
    }
    var next: [String: String] = [:]
    next["key-marker"] = node.value("NextKeyMarker")
    next["upload-id-marker"] = node.value("NextUploadIdMarker")
    continuation = node.value("IsTruncated") == "true" && !next.isEmpty ? next : nil
  }
}

/// The reason why a server did not do what it was asked.
public struct S3Refusal: Error, Hashable, Sendable {
  public let status: Int
  /// `NoSuchKey`, `SlowDown` and so on; empty when the answer tells none.
  public let code: String

  public init(status: Int, code: String) {
    self.status = status
    self.code = code
  }

  /// Reads the body of an answer.
  public init(status: Int, body: [UInt8]) {
    self.status = status
    // Dropped because the status tells enough.
    let node = body.isEmpty ? nil : try? XMLTree.parse(body)
    code = (node?.name == "Error" ? node?.value("Code") : node?.children(named: "Error").first?.value("Code")) ?? ""
  }
}

extension XMLNode {
  /// The text of the first child of that name.
  public func value(_ name: String) -> String? { children(named: name).first?.text }
}
