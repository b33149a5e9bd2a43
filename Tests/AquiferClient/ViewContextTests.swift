// The context of a user interface: its generations, and what it tells when it goes on.

import AquiferClient
import Foundation
import Testing

@Test @MainActor func `the view's context reads one state until it goes on, and tells what differs`() async throws {
  let test = try await TestContainer()
  let context = test.container.viewContext
  context.automaticallyMergesChangesFromParent = false
  #expect(try context.fetch(Photo.all) == [])
  let photo = try await test.container.save { try $0.insert(Photo(title: "a")) }.value
  #expect(try context.fetch(Photo.all) == [])
  #expect(try context.refresh().inserted == [photo.id.any])
  #expect(try context.fetch(Photo.all).map(\.id) == [photo.id])
  var changes = context.changes.makeAsyncIterator()
  context.automaticallyMergesChangesFromParent = true
  try await test.container.save { try $0.delete(photo.id) }
  #expect(await changes.next()?.deleted == [photo.id.any])
  #expect(try context.count(Photo.all) == 0)
}

@Test @MainActor func `the view's context reads the generation that it is given, or whatever is newest`() async throws {
  let test = try await TestContainer()
  let (container, context) = (test.container, test.container.viewContext)
  context.automaticallyMergesChangesFromParent = false
  let former = try await container.currentQueryGeneration()
  let photo = try await container.save { try $0.insert(Photo(title: "a")) }.value
  try context.setQueryGeneration(from: .current)
  #expect(try context.object(photo.id)?.title == "a")
  try context.setQueryGeneration(from: .of(former))
  #expect(try context.object(photo.id) == nil && context.first(Photo.all) == nil)
  // Several reads of a generation agree, whatever is saved in between.
  try await container.save { try $0.update(photo.id) { $0.title = "b" } }
  let counts = try context.read { context in (try context.count(Photo.all), try context.fetch(Photo.all).count) }
  #expect(counts == (0, 0))
  try context.setQueryGeneration(from: .unpinned)
  #expect(try context.object(photo.id)?.title == "b")
  try await container.save { try $0.update(photo.id) { $0.title = "c" } }
  #expect(try context.object(photo.id)?.title == "c")
  former.release()
  #expect(throws: StoreError.generationExpired) { try context.setQueryGeneration(from: .of(former)) }
  #expect(try context.object(photo.id)?.title == "c")
}

@Test(.timeLimit(.minutes(1))) @MainActor
func `listeners of the view's context hear what differs when it is given another generation`() async throws {
  let test = try await TestContainer()
  let (container, context) = (test.container, test.container.viewContext)
  context.automaticallyMergesChangesFromParent = false
  #expect(try context.fetch(Photo.all) == [])
  var changes = context.changes.makeAsyncIterator()
  let former = try await container.currentQueryGeneration()
  let photo = try await container.save { try $0.insert(Photo(title: "a")) }.value
  try context.setQueryGeneration(from: .current)
  #expect(await changes.next()?.inserted == [photo.id.any])
  // No history tells what to undo.
  try context.setQueryGeneration(from: .of(former))
  #expect(await changes.next()?.invalidatedAllObjects == true)
  try await container.save { try $0.update(photo.id) { $0.title = "b" } }
  try context.setQueryGeneration(from: .unpinned)
  let last = try #require(await changes.next())
  #expect(last.inserted == [photo.id.any] && last.updated.isEmpty && !last.invalidatedAllObjects)
}

@Test(.timeLimit(.minutes(1))) @MainActor func `what the view's context tells ends when the container closes`()
  async throws
{
  let test = try await TestContainer()
  let context = test.container.viewContext
  var changes = context.changes.makeAsyncIterator()
  await test.container.close()
  #expect(await changes.next() == nil)
  var late = context.changes.makeAsyncIterator()
  #expect(await late.next() == nil)
}

@Test @MainActor func `what an object went through between two states is told as one difference`() async throws {
  let test = try await TestContainer()
  let (container, context) = (test.container, test.container.viewContext)
  context.automaticallyMergesChangesFromParent = false
  let (kept, gone, brief) = (Photo(title: "kept"), Photo(title: "gone"), Photo(title: "brief"))
  try await container.save { try $0.insertAll([kept, gone]) }
  try context.refresh()
  try await container.save { save in
    try save.update(kept.id) { $0.title = "changed" }
    try save.insert(brief)
  }
  try await container.save { save in
    try save.delete(gone.id)
    try save.delete(brief.id)
  }
  let changes = try context.refresh()
  #expect(changes.updated == [kept.id.any] && changes.deleted == [gone.id.any] && changes.inserted.isEmpty)
  #expect(!changes.invalidatedAllObjects)
  let none = try context.refresh()
  #expect(none.inserted.isEmpty && none.updated.isEmpty && none.deleted.isEmpty)
}

@Test @MainActor func `the view's context goes on over a purge of the history that it has not read, and says so`()
  async throws
{
  let test = try await TestContainer()
  let (container, context) = (test.container, test.container.viewContext)
  context.automaticallyMergesChangesFromParent = false
  #expect(try context.fetch(Photo.all) == [])
  let photo = try await container.save { try $0.insert(Photo(title: "a")) }.value
  #expect(try await container.purgeHistory(before: .distantFuture, in: container.stores[0]) == 1)
  let changes = try context.refresh()
  #expect(changes.invalidatedAllObjects && changes.inserted.isEmpty)
  #expect(try context.fetch(Photo.all).map(\.id) == [photo.id])
  try await container.save { try $0.delete(photo.id) }
  let next = try context.refresh()
  #expect(!next.invalidatedAllObjects && next.deleted == [photo.id.any])
}
