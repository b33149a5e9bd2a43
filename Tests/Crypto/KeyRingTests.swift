// Keys for data at rest: the sealing key, the opening keys, and the format of their file.

import Testing

@testable import Crypto

struct KeyRingTests {
  private static let first = String(repeating: "1a", count: 32)
  private static let second = String(repeating: "2B", count: 32)

  private static func opened(_ blob: [UInt8], by keys: KeyRing, for purpose: KeyRing.Purpose = .record)
    throws(SealingError) -> [UInt8]
  {
    try blob.withUnsafeBufferPointer { blob throws(SealingError) in
      try keys.open(UnsafeRawBufferPointer(blob), for: purpose)
    }
  }

  @Test(
    arguments: [
      ("", "it has no key"), ("# nothing\n\n", "it has no key"),
      ("# one\n12ab", "line 2 is not a key: a key has 64 hexadecimal digits"),
      (String(repeating: "x", count: 64), "line 1 is not a key: a key has 64 hexadecimal digits"),
      (first + "\n\n" + first.uppercased(), "line 3 repeats an earlier key"),
    ])
  func `a file that is none of keys is refused with its line and without its content`(text: String, reason: String) {
    #expect(throws: KeyFileError(reason: reason)) { _ = try KeyRing(parsing: text) }
  }

  @Test func `the last key seals, every one opens`() throws {
    let old = try KeyRing(parsing: "# made in spring\r\n \(Self.first)\r\n")
    let both = try KeyRing(parsing: Self.first + "\n" + Self.second)
    let new = try KeyRing(parsing: Self.second)
    let id = try #require(old.newest)
    #expect(both.newest == new.newest && both.contains(id) && !new.contains(id) && id.description.count == 16)
    let content = Array("a secret".utf8)
    #expect(try Self.opened(old.seal(content, for: .record), by: both) == content)
    #expect(try Self.opened(both.seal(content, for: .record), by: new) == content)
    #expect(throws: SealingError.missingKey(id)) { try Self.opened(old.seal(content, for: .record), by: new) }
    #expect(throws: SealingError.missingKey(id)) { try Self.opened(old.seal(content, for: .record), by: KeyRing()) }
    #expect(!KeyRing().canSeal && KeyRing().newest == nil)
  }

  @Test(arguments: [0, 1, 16, 1000, 70_000])
  func `a blob says nothing, is opened for its purpose alone, and shows every change`(count: Int) throws {
    let keys = try KeyRing(parsing: KeyRing.newKey())
    let content = (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 7) }
    let blob = keys.seal(content, for: .history)
    #expect(blob != keys.seal(content, for: .history), "the same content looks another way each time")
    #expect(blob.withUnsafeBytes(KeyRing.isSealed) && blob.withUnsafeBytes(KeyRing.contentByteCount) == count)
    #expect(try Self.opened(blob, by: keys, for: .history) == content)
    #expect(throws: SealingError.altered) { try Self.opened(blob, by: keys, for: .record) }
    // The first ten bytes name the format and the key.
    for index in Array(10..<min(blob.count, 60)) + [blob.count - 1] {
      var altered = blob
      altered[index] ^= 1
      #expect(throws: SealingError.altered) { try Self.opened(altered, by: keys, for: .history) }
    }
    for cut in 0..<min(blob.count, 40) {
      #expect(throws: SealingError.altered) { try Self.opened(Array(blob.prefix(cut)), by: keys, for: .history) }
    }
    #expect([0x9c, 1].withUnsafeBytes { !KeyRing.isSealed($0) && KeyRing.contentByteCount(of: $0) == $0.count })
  }
}

struct SealedFileTests {
  private let keys: KeyRing

  init() throws { keys = try KeyRing(parsing: KeyRing.newKey()) }

  private func sealed(_ content: [UInt8], pieces: Int = 10_000) throws -> [UInt8] {
    var sealer = try #require(FileSealer(keys))
    var file: [UInt8] = []
    for start in stride(from: 0, to: content.count, by: pieces) {
      file += sealer.add(Array(content[start..<min(start + pieces, content.count)]))
    }
    return file + sealer.finish()
  }

  private func chunk(_ file: [UInt8], _ index: Int64, of count: Int64) -> [UInt8] {
    let place = SealedFile.place(ofChunk: index, contentByteCount: count)
    return Array(file[Int(place.offset)..<Int(place.offset) + place.byteCount])
  }

  @Test(arguments: [0, 1, 65_507, 65_508, 65_509, 131_016, 131_017, 300_000])
  func `a file is read chunk by chunk as it was written piece by piece`(count: Int) throws {
    let content = (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 31 >> 5) }
    let file = try sealed(content)
    #expect(Int64(file.count) == SealedFile.byteCount(ofContent: Int64(count)))
    #expect(SealedFile.contentByteCount(ofFile: Int64(file.count)) == Int64(count))
    let opened = try #require(try SealedFile(head: Array(file.prefix(SealedFile.headByteCount)), keys: keys))
    var read: [UInt8] = []
    for index in 0..<Int64(max(1, (count + 65_507) / 65_508)) {
      read += try opened.open(chunk: chunk(file, index, of: Int64(count)), index: index, contentByteCount: Int64(count))
    }
    #expect(read == content)
  }

  @Test func `chunks change neither places nor files, and an end that is missing is noticed`() throws {
    let count: Int64 = 200_000
    let content = [UInt8](repeating: 7, count: Int(count))
    let (file, other) = (try sealed(content), try sealed(content))
    let opened = try #require(try SealedFile(head: Array(file.prefix(SealedFile.headByteCount)), keys: keys))
    #expect(throws: SealingError.altered) {
      try opened.open(chunk: chunk(file, 1, of: count), index: 0, contentByteCount: count)
    }
    #expect(throws: SealingError.altered) {
      try opened.open(chunk: chunk(other, 0, of: count), index: 0, contentByteCount: count)
    }
    // As if the file had ended with its first chunk.
    #expect(throws: SealingError.altered) {
      try opened.open(chunk: chunk(file, 0, of: count), index: 0, contentByteCount: 65_508)
    }
  }

  @Test func `content that begins like a sealed file is none, and a file whose key is missing says so`() throws {
    let file = try sealed([1, 2, 3])
    let head = Array(file.prefix(SealedFile.headByteCount))
    #expect(try SealedFile(head: Array(head.dropLast()) + [head.last! ^ 1], keys: keys) == nil)
    #expect(try SealedFile(head: [], keys: keys) == nil)
    #expect(throws: SealingError.missingKey(keys.newest!)) { _ = try SealedFile(head: head, keys: KeyRing()) }
    #expect(
      [-1, 0, 60, 87, SealedFile.byteCount(ofContent: 65_508) + 1].allSatisfy {
        SealedFile.contentByteCount(ofFile: $0) == nil
      })
  }
}
