// Replays the corpus of the fuzzer as ordinary tests.

import Foundation
import Testing

extension FuzzTarget: CustomTestStringConvertible {
  var testDescription: String { name }

  private static let corpus = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
    .appending(path: "Corpus")

  /// Inputs by name: files written by hand or kept after a failure, the archive of the fuzzer's finds, and the target's
  /// own seeds.
  func inputs() throws -> [(name: String, bytes: [UInt8])] {
    var inputs = try Self.files(in: Self.corpus.appending(path: name))
    let archive = Self.corpus.appending(path: name + ".tar.gz")
    if FileManager.default.fileExists(atPath: archive.path) {
      let folder = FileManager.default.temporaryDirectory.appending(path: "aquifer-corpus-\(UUID().uuidString)")
      try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
      defer { try? FileManager.default.removeItem(at: folder) }
      let tar = try Process.run(URL(filePath: "/bin/tar"), arguments: ["-xzf", archive.path, "-C", folder.path])
      tar.waitUntilExit()
      #expect(tar.terminationStatus == 0, "\(archive.path) is no archive")
      inputs += try Self.files(in: folder)
    }
    return inputs + (try seeds().enumerated().map { ("seed-\($0)", $1) })
  }

  private static func files(in folder: URL) throws -> [(name: String, bytes: [UInt8])] {
    let files = (try? FileManager.default.contentsOfDirectory(at: folder, includingPropertiesForKeys: nil)) ?? []
    return try files.map { ($0.lastPathComponent, [UInt8](try Data(contentsOf: $0))) }.sorted { $0.0 < $1.0 }
  }
}

struct CorpusTests {
  @Test(arguments: FuzzTarget.all) func `inputs that fuzzing kept break nothing`(_ target: FuzzTarget) throws {
    let inputs = try target.inputs()
    #expect(inputs.count > 3, "\(target.name) has hardly a corpus")
    for input in inputs {
      #expect(throws: Never.self, "\(target.name)/\(input.name)") { try target.run(input.bytes) }
    }
  }

  @Test(arguments: FuzzTarget.all) func `inputs that are cut short or have a byte changed break nothing`(
    _ target: FuzzTarget
  ) throws {
    for input in try target.inputs() where input.bytes.count < 2_000 {
      for place in stride(from: 0, to: input.bytes.count, by: max(1, input.bytes.count / 8)) {
        #expect(throws: Never.self, "\(target.name)/\(input.name), its first \(place) bytes") {
          try target.run(Array(input.bytes[..<place]))
        }
        var changed = input.bytes
        changed[place] ^= UInt8(truncatingIfNeeded: 1 &<< (place % 8))
        #expect(throws: Never.self, "\(target.name)/\(input.name), byte \(place) changed") { try target.run(changed) }
      }
    }
  }
}
