// Content that lies in a file beside its store, and may not have arrived on this device.

public import FoundationEssentials
public import ReplicaStore

/// The value of an attribute with external storage. Two values are equal when their contents are.
public struct ExternalData: Sendable, Equatable {
  public let byteCount: Int
  /// The first 20 bytes of the content's SHA-256, hexadecimal.
  public let checksum: String
  private let source: Source

  private var name: ContentName { ContentName(checksum: checksum, byteCount: Int64(byteCount)) }

  private enum Source: Sendable {
    case new(ContentSource)
    case store(any ContentProvider)
    /// A row of nobody's: the name alone.
    case unknown
  }

  /// Takes content that the next save moves into the store's folder.
  public init(_ data: Data) {
    byteCount = data.count
    checksum = SHA256.name(of: data)
    source = .new(.data(data))
  }

  /// Takes the content of a file, which the save that names it copies. The file is read once to name it.
  /// - Throws: what reading the file throws.
  public init(contentsOf path: String) throws {
    let file = try ContentFile.measure(path)
    byteCount = Int(file.byteCount)
    checksum = file.checksum
    source = .new(.file(path: path))
  }

  public static func == (one: ExternalData, other: ExternalData) -> Bool {
    one.checksum == other.checksum && one.byteCount == other.byteCount
  }

  /// False if reading the content asks the server.
  public var isLocal: Bool {
    switch source {
    case .new: true
    case .store(let provider): provider.localPath(of: name) != nil
    case .unknown: false
    }
  }

  /// The content; fetches it from the server if it is not here.
  /// - Throws: `offline` for what is not here and can't be fetched now, `damaged` for a file that can't be read.
  public func data() async throws(StoreError) -> Data {
    switch source {
    case .new(.data(let data)): return data
    case .new(.file(let path)): return try ContentFile.contents(of: path)
    case .store(let provider):
      if let path = provider.localPath(of: name) { return try ContentFile.contents(of: path) }
      return try ContentFile.contents(of: try await provider.fetchContent(name))
    case .unknown: throw .offline
    }
  }
}

extension ExternalData: CustomStringConvertible {
  public var description: String { "\(byteCount) bytes, \(isLocal ? "local" : "at the server")" }
}

extension ExternalData: Storable {
  public var literal: Literal { .text("\(checksum):\(byteCount)") }

  public static func read(_ row: borrowing Row, _ column: Int) -> ExternalData {
    ExternalData(ContentName(row.text(column)) ?? ContentName(checksum: "", byteCount: 0), from: row.contents)
  }

  private init(_ name: ContentName, from provider: (any ContentProvider)?) {
    byteCount = Int(name.byteCount)
    checksum = name.checksum
    source = provider.map(Source.store) ?? .unknown
  }

  public func write(to row: inout RowWriter, _ column: Int) {
    row.literal(column, literal)
    if case .new(let content) = source { row.content(checksum, content) }
  }
}
