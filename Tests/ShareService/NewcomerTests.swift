// Accounts that strangers made for themselves: they stay newcomers' accounts for a week, whatever becomes of them.

import JSON
import PostgreSQL
import SQLite
import Records
import ServiceBus
import Testing

@testable import ShareService

@Suite(.eachEngine) struct NewcomerTests {
  /// Mail, and a provider at which everybody may sign up.
  private func scene() async throws -> MailScene {
    let scene = try await MailScene.begin()
    try await scene.world.ok(
      "POST", "/admin/1/identities",
      #"{"name":"acme","issuer":"https://acme.example.org","clientID":"a","signUp":"open"}"#)
    return scene
  }

  @Test func `an account stays a newcomer's without the identity that it began with`() async throws {
    let scene = try await scene()
    let entered = try await scene.enter("stranger")
    let stranger = try #require(entered.userRecordName)
    try await scene.world.ok("POST", "/admin/1/users/\(stranger)/password", #"{"password":"\#(World.password)"}"#)
    let page = try #require(try await scene.world.signIn("stranger@example.org").webAuthToken)
    func use(_ act: UseAccount.Act) async throws -> UseAccount.Account? {
      try await scene.world.service.directory.use(
        UseAccount(
          container: World.container, environment: .development, userRecordName: stranger,
          grant: try #require(try await scene.world.authenticate(user: page).grant), act: act)
      ).account
    }
    let identity = try #require(try await use(.look)?.ways.first)
    #expect(try await use(.removeWay(identity.name))?.ways.isEmpty == true)
    try await scene.invite((0..<25).map { "p\($0)@o.example.org" }, owner: stranger)
    #expect(scene.counterpart.receivers.count == Int(Directory.mailsPerNewcomer))
  }

  @Test func `nobody is a newcomer no more because the provider takes nobody now, or is gone`() async throws {
    let scene = try await scene()
    let stranger = try await scene.signUp("stranger")
    try await scene.world.ok("DELETE", "/admin/1/identities/acme")
    try await scene.invite((0..<25).map { "p\($0)@o.example.org" }, owner: stranger)
    #expect(scene.counterpart.receivers.count == Int(Directory.mailsPerNewcomer))
  }

  @Test func `an upgrade knows the newcomers of before`() async throws {
    let before = try await scene()
    let owners = [
      (try await before.signUp("stranger"), Directory.mailsPerNewcomer),
      (try await before.world.user("made").recordName, Directory.mailsPerInviter),
    ]
    await before.world.service.close()
    try before.world.undoNewcomers()
    let scene = try await MailScene(World(in: before.world.folder, seed: 99, clock: before.world.clock))
    for (number, (owner, limit)) in owners.enumerated() {
      let count = scene.counterpart.receivers.count
      try await scene.invite((0..<25).map { "p\($0)@o\(number).example.org" }, share: "S\(number)", owner: owner)
      #expect(scene.counterpart.receivers.count - count == Int(limit), "\(number)")
    }
  }
}

extension World {
  /// Turns a closed directory into one of the release before this format change.
  fileprivate func undoNewcomers() throws {
    let format = DirectoryFormat.selfMadeUsers.rawValue - 1
    switch DirectoryEngine.current {
    case .sqlite:
      let file = try Connection(exclusive: folder.path + "/directory.sqlite", mode: .readWrite)
      defer { file.close() }
      try file.execute(
        """
        ALTER TABLE user DROP COLUMN isSelfMade; ALTER TABLE user DROP COLUMN signOutCount;
        DROP INDEX pushRegistrationTarget; DROP INDEX deviceSignInSession;
        ALTER TABLE deviceSignIn DROP COLUMN session; PRAGMA user_version=\(format);
        """)
    case .postgreSQL:
      let session = try Session(try DirectoryEngine.database(of: folder).session)
      defer { session.close() }
      try session.queue(Command("undo.column", "ALTER TABLE \"user\" DROP COLUMN isSelfMade"))
      try session.queue(Command("undo.signOuts", "ALTER TABLE \"user\" DROP COLUMN signOutCount"))
      try session.queue(Command("undo.targets", "DROP INDEX pushRegistrationTarget"))
      try session.queue(Command("undo.sessions", "ALTER TABLE deviceSignIn DROP COLUMN session"))
      try session.queue(Command("undo.format", "UPDATE tenure SET format = \(format)"))
      try session.finish()
    }
  }
}
