import Foundation
import Testing

/// Costs that must not grow with the amount of data, measured in a separate process.
struct GrowthTests {
  @Test(arguments: ["records", "zones", "stores", "history"])
  func `opening shards reads no more of them when there is ten times as much in them`(_ kind: String) throws {
    let folder = try TemporaryFolder()
    let small = try figures(of: kind, 1000, in: folder)
    let large = try figures(of: kind, 10_000, in: folder)
    #expect(try #require(small["openReadBytes"]) > 0)
    #expect(try #require(large["fileBytes"]) > 2 * #require(small["fileBytes"]))
    // Allows a few pages more, where a tree has become deeper.
    #expect(try #require(large["openReadBytes"]) < #require(small["openReadBytes"]) + 64 * 1024)
  }

  private func figures(of kind: String, _ count: Int, in folder: TemporaryFolder) throws -> [String: Double] {
    let output = "\(folder.path)/\(kind)-\(count).json"
    let process = try ChildProcess(
      "/bin/sh",
      [
        "-c", #"exec "$0" grow "$1" "$2" "$3" 0.05 2 > "$4""#, CrashRig.tool, "\(folder.path)/data", kind, "\(count)",
        output,
      ])
    try #require(
      process.wait() == 0, "\(String(decoding: FileManager.default.contents(atPath: output) ?? Data(), as: UTF8.self))")
    let json = try JSONSerialization.jsonObject(with: Data(contentsOf: URL(filePath: output))) as? [String: Any]
    return try #require(json).compactMapValues { $0 as? Double }
  }
}
