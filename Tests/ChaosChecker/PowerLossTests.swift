// Tests the reading of the notes that processes write until they lose power.

import Testing

@testable import PowerLoss

@Suite struct PowerLossTests {
  /// A note as powerloss.c writes it.
  static func note(
    _ kind: UInt32, _ first: String = "", _ second: String = "", inode: UInt64 = 0, offset: Int64 = 0, size: Int64 = 0
  ) -> [UInt8] {
    func bytes(_ number: some FixedWidthInteger) -> [UInt8] { withUnsafeBytes(of: number) { Array($0) } }
    // Any number that no other note has.
    let number = bytes(UInt64(kind) << 32 | inode)
    let counts = bytes(UInt32(first.utf8.count)) + bytes(UInt32(second.utf8.count)) + bytes(UInt32(0))
    return bytes(PowerLoss.mark) + number + bytes(kind) + counts + bytes(inode) + bytes(offset) + bytes(size)
      + Array(first.utf8) + Array(second.utf8) + number
  }

  @Test func `a file that was synced and named stays, wherever the note of a killed process breaks off`() {
    let killed = Self.note(1, "the earlier page", inode: 7, offset: 4096, size: 8192)
    let upload = [
      Self.note(4, "/data/upload.part"), Self.note(1, inode: 8), Self.note(3, inode: 8),
      Self.note(5, "/data/upload.part", "/data/upload"), Self.note(6, "/data"),
    ]
    let whole: PowerLoss.Note = .written(inode: 7, offset: 4096, size: 8192, old: Array("the earlier page".utf8))
    for place in 0...upload.count {
      for length in 0...killed.count {
        let bytes = (upload[..<place] + [Array(killed.prefix(length))] + upload[place...]).flatMap(\.self)
        #expect(PowerLoss.pending(PowerLoss.parse(bytes)) == (length == killed.count ? [whole] : []))
      }
    }
  }

  @Test func `a name, a file and a folder whose notes are whole are taken back until they are synced`() {
    let made = Self.note(4, "/data/a.part")
    let named = Self.note(5, "/data/a.part", "/data/a")
    let pending: [PowerLoss.Note] = [
      .made(path: "/data/a.part"), .named(from: "/data/a.part", to: "/data/a", replaced: false),
    ]
    #expect(PowerLoss.pending(PowerLoss.parse(made + named)) == pending)
    #expect(PowerLoss.pending(PowerLoss.parse(made + named + Self.note(6, "/elsewhere"))) == pending)
    #expect(PowerLoss.pending(PowerLoss.parse(made + Self.note(6, "/data") + named)) == [pending[1]])
    #expect(PowerLoss.parse([]).isEmpty)
  }
}
