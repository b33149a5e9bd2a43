// Memory and reads of the process, from the kernel's files.

import Glibc

extension Growth {
  /// Resident memory.
  static func residentByteCount() -> Int { (number("VmRSS:", in: "/proc/self/status") ?? 0) * 1024 }

  /// Bytes read by system calls so far, from the cache or the disk.
  static func readByteCount() -> Int { number("rchar:", in: "/proc/self/io") ?? 0 }

  private static func number(_ name: String, in path: String) -> Int? {
    guard let file = fopen(path, "r") else { return nil }
    defer { fclose(file) }
    var line = [CChar](repeating: 0, count: 256)
    while fgets(&line, Int32(line.count), file) != nil {
      let words = String(decoding: line.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self).split {
        $0 == " " || $0 == "\t" || $0 == "\n"
      }
      if words.count > 1, words[0] == name { return Int(words[1]) }
    }
    return nil
  }
}
