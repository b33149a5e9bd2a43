// The parts of exchanges: headers of arbitrary bytes, deadlines, queues.

import Testing

@testable import ServiceBus

@Suite struct FrameTests {
  private func bytes(_ frame: Frame) -> [UInt8] {
    var bytes = [UInt8](repeating: 0, count: frame.headerByteCount)
    bytes.withUnsafeMutableBytes { frame.writeHeader(into: $0) }
    return bytes
  }

  private func frame(_ bytes: [UInt8]) -> Frame? { bytes.withUnsafeBytes { Frame(header: $0) } }

  @Test func `a header is read as it was written`() {
    for frame in [
      Frame(kind: .request, correlation: .max, budget: .max, name: "database.request/1", key: "owner _größe"),
      Frame(kind: .cancel, correlation: 1),
      Frame(kind: .failure, name: String(repeating: "x", count: 4096), key: String(repeating: "y", count: 4096)),
    ] {
      #expect(self.frame(bytes(frame)) == frame)
      #expect(self.frame(bytes(frame) + [1, 2, 3]) == frame, "what a later version adds is skipped")
    }
  }

  @Test func `the bytes of a header are these`() {
    let header = bytes(Frame(kind: .request, correlation: 0x0102_0304_0506_0708, budget: 1000, name: "a.b/1", key: "k"))
    #expect(header == [0x41, 0x71, 1, 4, 8, 7, 6, 5, 4, 3, 2, 1, 0xe8, 3, 0, 0, 5, 0, 1, 0] + Array("a.b/1k".utf8))
  }

  @Test func `a header cut short, too long or changed anywhere is refused or read, never more`() {
    let header = bytes(Frame(kind: .request, correlation: 9, budget: 7, name: "a.b/1", key: "key"))
    for count in 0..<header.count { #expect(frame(Array(header[..<count])) == nil) }
    for index in header.indices {
      for value in UInt8.min...UInt8.max {
        var changed = header
        changed[index] = value
        if let read = frame(changed) { #expect(read.headerByteCount <= 3 * changed.count + 20) }
      }
    }
    #expect(frame([]) == nil)
  }
}

@Suite struct TimerWheelTests {
  private final class Entry: TimerEntry {
    let deadline: Int64
    /// A timer that is late when it is added expires next.
    let effective: Int64
    var place: TimerPlace?
    init(_ deadline: Int64, now: Int64) {
      self.deadline = deadline
      effective = max(deadline, now)
    }
  }

  @Test func `entries expire after their deadline, at most a slot late, whatever else happens`() {
    var generator = Seeded(state: 7)
    for _ in 0..<50 {
      var now = Int64.random(in: 0...100_000, using: &generator)
      var wheel = TimerWheel<Entry>(now: now)
      var naive: [Entry] = []
      for _ in 0..<400 {
        switch Int.random(in: 0..<10, using: &generator) {
        case 0..<5:
          let entry = Entry(
            now + Int64.random(in: -20...(Bool.random(using: &generator) ? 50 : 20_000), using: &generator), now: now)
          wheel.insert(entry)
          naive.append(entry)
        case 5..<7:
          guard let index = naive.indices.randomElement(using: &generator) else { continue }
          wheel.remove(naive.remove(at: index))
        default:
          now += Int64.random(in: 0...(Bool.random(using: &generator) ? 30 : 9000), using: &generator)
          for entry in wheel.expire(now: now) {
            #expect(entry.deadline < now)
            #expect(naive.contains { $0 === entry })
            naive.removeAll { $0 === entry }
          }
          #expect(naive.allSatisfy { $0.effective + 17 > now })
        }
        #expect(wheel.count == naive.count)
        if let next = wheel.nextCheck { #expect(naive.allSatisfy { $0.effective + 9 >= next }) }
      }
    }
  }
}
