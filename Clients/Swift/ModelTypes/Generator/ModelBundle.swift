// Reads an `.xcdatamodeld`: its current version, and the earlier ones that files may still have.

import FoundationEssentials
import XCDataModel

/// The versions of a model.
struct ModelBundle {
  struct Version {
    /// Without its extension, such as `Photos 2`.
    let name: String
    /// The path of the version's `contents`.
    let file: String
    let source: ModelSource
  }

  /// The bundle's name without its extension, such as `Photos`.
  let name: String
  /// Oldest first, without the current one.
  let earlier: [Version]
  let current: Version

  /// - Parameter path: of the `.xcdatamodeld`.
  /// - Throws: a refusal for the bundle or for the first file that is no model.
  init(at path: String) throws(Refusals) {
    let file = path.split(separator: "/").last ?? ""
    name = String(file.prefix { $0 != "." })
    let versions = Self.versionNames(in: path)
    let currentName = try Self.currentName(of: versions, in: path)
    var read: [Version] = []
    for version in versions where version != currentName { read.append(try Self.read(version, in: path)) }
    earlier = read
    current = try Self.read(currentName, in: path)
  }

  /// Names of versions in the order in which Xcode makes them: `Photos`, `Photos 2`, …, `Photos 10`.
  static func versionNames(in path: String) -> [String] {
    let names = (try? FileManager.default.contentsOfDirectory(atPath: path)) ?? []
    return names.filter { $0.hasSuffix(suffix) }.sorted { first, second in
      (number(of: first), first) < (number(of: second), second)
    }
  }

  private static let suffix = ".xcdatamodel"

  private static func number(of version: String) -> Int {
    Int(version.dropLast(suffix.count).split(separator: " ").dropFirst().last ?? "") ?? 1
  }

  private static func currentName(of versions: [String], in path: String) throws(Refusals) -> String {
    let plist = path + "/.xccurrentversion"
    guard let bytes = FileManager.default.contents(atPath: plist) else {
      if let only = versions.first, versions.count == 1 { return only }
      guard let last = versions.last else { throw refusal(path, 1, "The model has no version.") }
      let remedy =
        "Choose the current version in Xcode, or write that file: <plist><dict><key>_XCCurrentVersionName</key>"
        + "<string>\(last)</string></dict></plist>"
      let count = "\(versions.count) versions"
      throw refusal(path, 1, "The model has \(count) and no .xccurrentversion. \(remedy)")
    }
    do throws(ModelReadingError) {
      let name = try ModelReader.currentVersion(fromPlist: [UInt8](bytes))
      guard versions.contains(name) else {
        throw ModelReadingError("The current version is \(name), which the model does not have.", line: 1)
      }
      return name
    } catch {
      throw refusal(plist, error.line ?? 1, error.reason)
    }
  }

  private static func read(_ version: String, in path: String) throws(Refusals) -> Version {
    let file = "\(path)/\(version)/contents"
    guard let bytes = FileManager.default.contents(atPath: file) else {
      throw refusal(file, 1, "The file can't be read.")
    }
    do throws(ModelReadingError) {
      let name = String(version.dropLast(suffix.count))
      return Version(name: name, file: file, source: try ModelReader.source([UInt8](bytes)))
    } catch {
      throw refusal(file, error.line ?? 1, error.reason)
    }
  }

  private static func refusal(_ file: String, _ line: Int, _ message: String) -> Refusals {
    Refusals(list: [Refusal(file: file, line: line, message: message)])
  }
}
