// The page behind a mail's link: only a click counts, and only for the address that the installation signed.

import HTTPServer
import Records
import Synchronization
import Testing
import WebServices

@testable import Gateway

@Suite struct MailPageTests {
  private func path(_ address: String = "ida@example.org", key: [UInt8] = GatewayWorld.signingKey) -> String {
    "\(MailStop.path)/\(MailStop(emailAddress: address).text(signedWith: key))"
  }

  private func stopped(_ world: GatewayWorld) -> [String] { world.record.withLock(\.stoppedMail) }

  @Test func `the link shows the address and changes nothing, and a click ends its mail`() async throws {
    let world = try await GatewayWorld()
    let page = await world.respond(.get, path("<ida>@example.org"))
    #expect(page.status == 200 && page.text.contains("&lt;ida&gt;@example.org") && !page.text.contains("<ida>"))
    #expect(page.header("Content-Security-Policy")?.contains("frame-ancestors 'none'") == true)
    #expect(stopped(world).isEmpty)
    let done = await world.respond(.post, path(), body: "")
    #expect(done.status == 200 && done.text.contains("no more invitations"))
    #expect(stopped(world) == ["ida@example.org"])
  }

  @Test func `a mail program's own request counts, too`() async throws {
    let world = try await GatewayWorld()
    #expect(await world.respond(.post, path(), body: "List-Unsubscribe=One-Click").status == 200)
    #expect(stopped(world) == ["ida@example.org"])
  }

  @Test func `an address that the installation did not sign is refused`() async throws {
    let world = try await GatewayWorld()
    let signed = path()
    for path in [path(key: Array(repeating: 8, count: 32)), String(signed.dropLast()), "\(MailStop.path)/x"] {
      #expect(await world.respond(.get, path).status == 400)
      #expect(await world.respond(.post, path, body: "").status == 400)
    }
    let kept = KeptSignIn(
      for: .account, container: try #require(.init(rawValue: GatewayWorld.container)), environment: .development,
      userRecordName: "_a", userName: "a", grant: "g", expiry: .max)
    let other = "\(MailStop.path)/\(kept.text(signedWith: GatewayWorld.signingKey))"
    #expect(await world.respond(.post, other, body: "").status == 400)
    #expect(stopped(world).isEmpty)
  }
}
