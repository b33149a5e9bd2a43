import Foundation
import ServiceKit
import Testing

@Test func `free space is that of the nearest folder there is`() throws {
  let root = FileManager.default.temporaryDirectory.path
  let known = try #require(DiskSpace(of: root))
  let missing = try #require(DiskSpace(of: root + "/aquifer-none-\(UUID().uuidString)/deeper/still"))
  // Other programs write to the same file system meanwhile.
  #expect(known.free > 0 && missing.free > known.free / 2 && missing.free < known.free * 2)
  #expect(known.size >= known.free && missing.size == known.size)
  #expect(DiskSpace(of: "/proc/self/exe/below") == nil, "a file is no folder")
}

@Test func `a process says how much room its data have`() async throws {
  let metrics = Metrics()
  metrics.addDisk(of: FileManager.default.temporaryDirectory.path)
  let text = String(decoding: await metrics.text(), as: UTF8.self)
  for name in ["aquifer_disk_free_bytes", "aquifer_disk_size_bytes"] {
    #expect(
      text.split(separator: "\n").contains {
        $0.hasPrefix(name + " ") && (Double($0.dropFirst(name.count + 1)) ?? 0) > 0
      }, "\(text)")
  }
}
