// A zone's export in a folder: `zone.jsonl` with a line for each record, and the assets' contents in `assets`.

import Crypto
import FoundationEssentials
import JSON

/// The reason why a folder can't be written or is no export: one sentence.
struct ZoneFolderProblem: Error, Hashable {
  let reason: String

  init(_ reason: String) { self.reason = reason }
}

enum ZoneFolder {
  static func linesPath(_ folder: String) -> String { folder + "/zone.jsonl" }
  static func assetsPath(_ folder: String) -> String { folder + "/assets" }
  static func assetPath(_ hash: String, in folder: String) -> String { assetsPath(folder) + "/" + hash }

  /// Creates the folder; an existing one must be empty.
  static func make(_ folder: String) throws(ZoneFolderProblem) {
    do {
      if FileManager.default.fileExists(atPath: folder),
        try !FileManager.default.contentsOfDirectory(atPath: folder).isEmpty
      {
        throw ZoneFolderProblem("\(folder) is not empty")
      }
      try FileManager.default.createDirectory(atPath: assetsPath(folder), withIntermediateDirectories: true)
    } catch let problem as ZoneFolderProblem {
      throw problem
    } catch {
      throw ZoneFolderProblem("\(folder) can't be made")
    }
  }

  static func read(_ path: String) throws(ZoneFolderProblem) -> [UInt8] {
    guard let data = FileManager.default.contents(atPath: path) else {
      throw ZoneFolderProblem("\(path) can't be read")
    }
    return [UInt8](data)
  }

  /// The content of an asset, checked against its name, which is its hash.
  static func readAsset(_ hash: String, byteCount: Int64, in folder: String) throws(ZoneFolderProblem) -> [UInt8] {
    let content = try read(assetPath(hash, in: folder))
    guard Int64(content.count) == byteCount, Hex.encode(SHA256.hash(content)) == hash else {
      throw ZoneFolderProblem("\(assetPath(hash, in: folder)) changed after the export")
    }
    return content
  }
}

/// A complete export, read back: the last line holds the digest of all lines before it.
struct ZoneExport {
  struct Asset: Hashable {
    let hash: String
    let byteCount: Int64
  }

  /// The records' lines without line ends.
  private(set) var records: [ArraySlice<UInt8>] = []
  /// In the order in which they first occur.
  private(set) var assets: [Asset] = []

  init(folder: String) throws(ZoneFolderProblem) {
    let path = ZoneFolder.linesPath(folder)
    let bytes = try ZoneFolder.read(path)
    let lines = bytes.split(separator: UInt8(ascii: "\n"))
    guard let last = lines.last, let end = Self.json(last), end["end"]?.bool == true, let sum = end["sha256"]?.string,
      let count = end["records"]?.int64
    else {
      throw ZoneFolderProblem("\(path) has no last line: the export is not complete")
    }
    guard Hex.encode(SHA256.hash(Array(bytes[..<last.startIndex]))) == sum else {
      throw ZoneFolderProblem("\(path) changed after the export")
    }
    var known: Set<Asset> = []
    for line in lines.dropLast() {
      guard let json = Self.json(line), let record = json["record"] else { continue }
      records.append(line)
      for (_, field) in record["fields"]?.members ?? [] where field["type"]?.string?.hasPrefix("ASSETID") == true {
        for value in field["value"]?.kind == .array
          ? field["value"]?.elements ?? [] : field["value"].map({ [$0] }) ?? []
        {
          guard let hash = value["sha256"]?.string, let byteCount = value["size"]?.int64 else { continue }
          let asset = Asset(hash: hash, byteCount: byteCount)
          if known.insert(asset).inserted { assets.append(asset) }
        }
      }
    }
    guard Int64(records.count) == count else {
      throw ZoneFolderProblem("\(path) has \(records.count) records, but its last line says \(count)")
    }
  }

  /// Dropped because a line that is no JSON is reported as no line of an export.
  static func json(_ line: ArraySlice<UInt8>) -> JSONValue? { try? JSONValue(parsing: Array(line)) }

  /// The records in pages that the server accepts in one request.
  func pages(recordLimit: Int, byteLimit: Int) -> [[UInt8]] {
    var pages: [[UInt8]] = []
    var page: [UInt8] = []
    var count = 0
    for record in records {
      if count == recordLimit || !page.isEmpty && page.count + record.count > byteLimit {
        pages.append(page)
        (page, count) = ([], 0)
      }
      page += record
      page.append(UInt8(ascii: "\n"))
      count += 1
    }
    if !page.isEmpty { pages.append(page) }
    return pages
  }
}
