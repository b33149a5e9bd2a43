// Events of mirroring, as the store keeps them.

import FoundationEssentials
import MirrorWire
import Testing

@testable import ReplicaStore

@Test func `an event whose process was killed is ended by the next, and one that ended stays as it was`() async throws {
  let folder = try World.folder()
  let path = "\(folder.path)/store.sqlite"
  let first = try await Replica.open(World.configuration(path), Photos.model)
  let start = Date(milliseconds: 1_000_000)
  var done = MirrorEvent(identifier: UUID(), kind: .import, startDate: start)
  try await first.record(done)
  (done.endDate, done.succeeded, done.savedCount) = (start + 1, true, 3)
  try await first.record(done)
  let begun = MirrorEvent(identifier: UUID(), kind: .export, startDate: start)
  try await first.record(begun)
  // A reader of the same file ends nothing.
  var configuration = World.configuration(path)
  configuration.isReadOnly = true
  let reader = try await Replica.open(configuration, Photos.model)
  #expect(try await reader.mirrorEvents(after: nil, afterEvent: nil, type: nil) == [done, begun])
  await reader.close()
  await first.close()
  for _ in 0..<2 {
    let next = try await Replica.open(World.configuration(path, seed: 500), Photos.model)
    let events = try await next.mirrorEvents(after: nil, afterEvent: nil, type: nil)
    #expect(events.map(\.identifier) == [done.identifier, begun.identifier] && events[0] == done)
    let end = try #require(events[1].endDate)
    #expect(end > start && !events[1].succeeded && events[1].errors.map(\.error.ckErrorCode) == [20])
    await next.close()
  }
}
