// The steady clock, which does not jump when the system's clock is set.

import Foundation
import ServiceKit
import Synchronization
import Testing

@Suite struct `A steady clock` {
  private struct Wall: WallClock {
    let now: Int64
  }

  @Test func `goes on where an earlier process of the folder left it, whatever the wall clock says`() throws {
    let path = NSTemporaryDirectory() + "steady-clock-\(UUID().uuidString)"
    defer { try? FileManager.default.removeItem(atPath: path) }
    let first = SteadyClock(keptAt: path, wall: Wall(now: 1_000_000_000)).now
    #expect((1_000_000_000..<1_000_060_000).contains(first))
    for wall in [Int64(1), 9_000_000_000] {
      let later = SteadyClock(keptAt: path, wall: Wall(now: wall)).now
      #expect((first..<first + 60_000).contains(later))
    }
  }

  @Test(arguments: ["", "another-start 5\n", "x", "\u{0}"])
  func `begins by the wall clock after a start of the machine, and where the file is damaged`(
    text: String
  ) throws {
    let path = NSTemporaryDirectory() + "steady-clock-\(UUID().uuidString)"
    defer { try? FileManager.default.removeItem(atPath: path) }
    try Data(text.utf8).write(to: URL(filePath: path))
    #expect((5_000..<65_000).contains(SteadyClock(keptAt: path, wall: Wall(now: 5_000)).now))
  }

  @Test func `goes without a file where none can be written`() {
    #expect((5_000..<65_000).contains(SteadyClock(keptAt: "/nowhere/steady-clock", wall: Wall(now: 5_000)).now))
  }
}
