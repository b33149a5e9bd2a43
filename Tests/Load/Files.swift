// Files and folders from the command line.

import Glibc

enum TextFile {
  static func read(_ path: String) throws(LoadError) -> [UInt8] {
    guard let file = fopen(path, "r") else {
      throw LoadError(description: "can't read \(path): \(String(cString: strerror(errno)))")
    }
    defer { fclose(file) }
    var bytes = [UInt8](repeating: 0, count: 4 << 20)
    let count = fread(&bytes, 1, bytes.count, file)
    return Array(bytes[..<count])
  }

  static func write(_ bytes: [UInt8], to path: String) throws(LoadError) {
    guard let file = fopen(path, "w") else {
      throw LoadError(description: "can't write \(path): \(String(cString: strerror(errno)))")
    }
    let count = fwrite(bytes, 1, bytes.count, file)
    guard fclose(file) == 0, count == bytes.count else {
      throw LoadError(description: "can't write \(path): \(String(cString: strerror(errno)))")
    }
  }
}

/// A folder that contains files only.
enum Folder {
  static func empty(_ path: String) {
    guard let folder = opendir(path) else { return }
    defer { closedir(folder) }
    while let entry = readdir(folder) {
      let name = withUnsafeBytes(of: &entry.pointee.d_name) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
      if name != ".", name != ".." { unlink("\(path)/\(name)") }
    }
  }

  static func remove(_ path: String) {
    empty(path)
    rmdir(path)
  }
}
