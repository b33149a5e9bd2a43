// Invitations by mail whose outcome the directory can't note, or whose people change meanwhile.

import CSQLite
import FaultyDisk
import Mail
import Testing

@testable import ShareService

@Suite struct MailFaultTests {
  @Test func `no mail is sent while the directory can be read and not written, and one when it can`() async throws {
    try await DiskFaultTests.run { world, disk in
      let scene = try await MailScene.begin(in: world)
      try await scene.note(["ida@example.org"])
      disk.fail(FAULTY_DISK_WRITE, SQLITE_FULL)
      for _ in 0..<3 { await scene.mails.round() }
      #expect(scene.counterpart.messages.isEmpty)
      disk.fail(nil)
      for _ in 0..<3 { await scene.mails.round() }
      #expect(scene.counterpart.receivers == ["ida@example.org"])
      return world
    }
  }

  @Test func `a mail whose outcome could not be noted is repeated as late as one that failed`() async throws {
    try await DiskFaultTests.run { world, disk in
      let scene = try await MailScene.begin(in: world)
      scene.counterpart.during { disk.fail(FAULTY_DISK_WRITE, SQLITE_FULL) }
      try await scene.invite(["ida@example.org"])
      disk.fail(nil)
      for _ in 0..<3 { await scene.mails.round() }
      #expect(scene.counterpart.messages.count == 1)
      world.clock.advance(by: 61_000)
      for _ in 0..<3 { await scene.mails.round() }
      #expect(scene.counterpart.messages.count == 2)
      #expect(Set(scene.counterpart.messages.map(\.messageID)).count == 1)
      return world
    }
  }
}

@Suite(.eachEngine) struct MailMeanwhileTests {
  @Test func `the outcome of a mail is never that of an invitation that took the other's place meanwhile`()
    async throws
  {
    let scene = try await MailScene.begin()
    scene.counterpart.during { try await scene.note(["ida@example.org"]) }
    try await scene.invite(["idda@example.org"])
    #expect(scene.counterpart.receivers == ["idda@example.org", "ida@example.org"])
    await scene.mails.round()
    #expect(scene.counterpart.messages.count == 2)
    #expect(try await scene.outcomes() == ["ida@example.org sent", "idda@example.org sent"])
  }

  @Test func `a mail that fails puts no other invitation off that took the place meanwhile`() async throws {
    let scene = try await MailScene.begin()
    scene.counterpart.during { try await scene.note(["ida@example.org"]) }
    scene.counterpart.fail(.later)
    try await scene.invite(["idda@example.org"])
    #expect(scene.counterpart.receivers == ["ida@example.org"])
  }
}
