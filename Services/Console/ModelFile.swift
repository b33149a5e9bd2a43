// Finds the model file of a path: a bundle's current version, a single version, or the file itself.

import FoundationEssentials
import XCDataModel

enum ModelFile {
  /// The reason why a path has no model: one sentence that tells the remedy.
  struct Problem: Error, Hashable {
    let reason: String
  }

  /// The bytes of the `contents` file.
  static func contents(at path: String) throws(Problem) -> [UInt8] {
    var path = path
    while path.count > 1, path.hasSuffix("/") { path.removeLast() }
    var isDirectory = false
    guard FileManager.default.fileExists(atPath: path, isDirectory: &isDirectory) else {
      throw Problem(reason: "\(path) does not exist")
    }
    guard isDirectory else { return try read(path) }
    if path.hasSuffix(".xcdatamodel") { return try read(path + "/contents") }
    guard path.hasSuffix(".xcdatamodeld") else {
      throw Problem(reason: "\(path) is a folder, but neither an .xcdatamodeld nor an .xcdatamodel")
    }
    return try read(path + "/" + (try currentVersion(in: path)) + "/contents")
  }

  /// The folder of the version that `.xccurrentversion` names; a bundle with a single version needs no such file.
  private static func currentVersion(in bundle: String) throws(Problem) -> String {
    let versions = try list(bundle).filter { $0.hasSuffix(".xcdatamodel") }.sorted()
    let plist = bundle + "/.xccurrentversion"
    if FileManager.default.fileExists(atPath: plist) {
      let bytes = try read(plist)
      let name: String
      do throws(ModelReadingError) {
        name = try ModelReader.currentVersion(fromPlist: bytes)
      } catch {
        throw Problem(reason: "\(plist): \(error)")
      }
      guard versions.contains(name) else { throw Problem(reason: "\(plist) names \(name), which is not in the bundle") }
      return name
    }
    guard versions.count <= 1 else {
      throw Problem(reason: "\(bundle) has \(versions.count) versions and no .xccurrentversion: name one of them")
    }
    guard let only = versions.first else { throw Problem(reason: "\(bundle) has no .xcdatamodel in it") }
    return only
  }

  private static func list(_ directory: String) throws(Problem) -> [String] {
    do {
      return try FileManager.default.contentsOfDirectory(atPath: directory)
    } catch {
      throw Problem(reason: "\(directory) can't be read")
    }
  }

  static func read(_ path: String) throws(Problem) -> [UInt8] {
    guard let data = FileManager.default.contents(atPath: path) else { throw Problem(reason: "\(path) can't be read") }
    return [UInt8](data)
  }
}
