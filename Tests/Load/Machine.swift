// The machine of the measurement.

import Glibc
import JSON

struct Machine: Equatable {
  var coreCount = 0
  var processor = "unknown"
  /// Megabytes of 2^20 bytes.
  var memory = 0
  var kernel = "unknown"

  static func here() -> Machine {
    var system = utsname()
    uname(&system)
    let kernel = withUnsafeBytes(of: &system.release) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
    let coreCount = Int(sysconf(Int32(_SC_NPROCESSORS_ONLN)))
    return Machine(
      processors: ProcFile.text("/proc/cpuinfo"), memory: ProcFile.text("/proc/meminfo"), kernel: kernel,
      coreCount: coreCount)
  }

  /// - Parameters: the contents of `/proc/cpuinfo` and `/proc/meminfo`.
  init(processors: String, memory: String, kernel: String, coreCount: Int) {
    self.coreCount = coreCount
    self.kernel = kernel
    processor = Self.value(of: "model name", in: processors) ?? "unknown"
    self.memory = (Self.value(of: "MemTotal", in: memory)?.split(separator: " ").first.flatMap { Int($0) } ?? 0) / 1024
  }

  private static func value(of name: String, in text: String) -> String? {
    guard let line = text.split(separator: "\n").first(where: { $0.hasPrefix(name) }),
      let colon = line.firstIndex(of: ":")
    else { return nil }
    return String(line[line.index(after: colon)...].drop { $0 == " " })
  }

  var summary: String { "\(coreCount) × \(processor), \(memory) MB of memory, Linux \(kernel)" }

  func write(to writer: inout JSONWriter) {
    writer.beginObject()
    writer.member("cores", coreCount)
    writer.member("processor", processor)
    writer.member("memoryMB", memory)
    writer.member("kernel", kernel)
    writer.endObject()
  }
}

/// The kernel's text files.
enum ProcFile {
  /// The file's text; empty when it is missing.
  static func text(_ path: String) -> String {
    guard let file = fopen(path, "r") else { return "" }
    defer { fclose(file) }
    var bytes = [UInt8](repeating: 0, count: 256 * 1024)
    let count = fread(&bytes, 1, bytes.count, file)
    return String(decoding: bytes[..<count], as: UTF8.self)
  }
}
