// What a story's person sees on a device, in the order in which the device showed it.

import Gates
import MirrorWire
import ReplicaStore
import Synchronization
import Testing

@testable import ReplicaWorld

/// A device that shows one line. The first one to look after `hold` sees it only when the gate opens.
private final class SlowDevice: JournalReplica {
  private let line: Mutex<String>
  private let gate = Mutex<Gate?>(nil)

  init(_ line: String) { self.line = Mutex(line) }

  var store: any MirroredStore { preconditionFailure("nobody syncs") }
  func save(_ edit: @escaping @Sendable (inout any JournalEdit) -> Void) async throws {}
  func reopened() async throws -> any JournalReplica { self }
  func close() async {}

  func show(_ line: String) { self.line.withLock { $0 = line } }
  func hold(at gate: Gate) { self.gate.withLock { $0 = gate } }

  func shown() async throws -> [String] {
    let line = line.withLock { $0 }
    let gate = gate.withLock { gate in
      defer { gate = nil }
      return gate
    }
    await gate?.wait()
    return [line]
  }
}

@Test func `of two looks at a device the older one is not taken for a value that went back`() async throws {
  let ends = ZoneEnds()
  for text in ["old", "new"] { ends.note(text, heard: 0) }
  let person = Person("1", Trace(), chance: Chance(1), whim: Chance(1, stream: 1), ends)
  let (old, new) = (AttributeValue.string("old").shown, AttributeValue.string("new").shown)
  let device = SlowDevice("Post p1: title=\(old)")
  await person.look(at: device)
  let gate = Gate()
  device.hold(at: gate)
  async let first: Void = person.look(at: device)
  while gate.waitingCount == 0 { await Task.yield() }
  device.show("Post p1: title=\(new)")
  await person.look(at: device)
  gate.open()
  await first
  #expect(person.setbacks.isEmpty)

  // The look that had to wait was made up for.
  device.show("Post p1: title=\(old)")
  await person.look(at: device)
  #expect(person.setbacks.map(\.former) == [new])
}
