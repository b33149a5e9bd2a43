// A provider's logout at the gateway.

import ForgedProvider
import HTTPServer
import ServiceBus
import Synchronization
import Testing

@testable import Gateway

@Suite struct IdentityLogoutTests {
  private func post(_ world: IdentityWorld, _ form: String, provider: String = "acme") async -> HTTPResponse {
    await world.gateway.respond(.post, "/signin/logout/\(provider)", body: form)
  }

  private func ended(_ world: IdentityWorld) -> [String] {
    world.gateway.record.withLock(\.logouts).map { "\($0.subject ?? "-") \($0.sessionID ?? "-")" }
  }

  @Test func `a provider's token ends sessions, once`() async throws {
    let world = try await IdentityWorld()
    let token = world.forged.logoutToken(sessionID: "s-1")
    let answer = await post(world, "logout_token=\(token)")
    #expect(answer.status == 200 && answer.header("Cache-Control") == "no-store")
    #expect(await post(world, "logout_token=\(token)").status == 400)
    #expect(ended(world) == ["person-1 s-1"])
    #expect(await post(world, "logout_token=\(world.forged.logoutToken(tokenID: "j-2"))").status == 200)
    #expect(ended(world) == ["person-1 s-1", "person-1 -"])
  }

  @Test func `anything else ends nothing`() async throws {
    let world = try await IdentityWorld()
    let token = world.forged.logoutToken()
    #expect(await post(world, "").status == 400)
    #expect(await post(world, "logout_token=x").status == 400)
    #expect(await post(world, "logout_token=\(token)", provider: "rival").status == 404)
    let idToken = world.forged.idToken(clientID: "aquifer", nonce: "n")
    #expect(await post(world, "logout_token=\(idToken)").status == 400)
    world.forged.change { $0.answers = ["/keys": (503, "")] }
    #expect(ended(world).isEmpty)
    let other = try await IdentityWorld()
    other.forged.change { $0.answers = ["/.well-known/openid-configuration": (503, "")] }
    #expect(await post(other, "logout_token=\(other.forged.logoutToken())").status == 503)
    #expect(ended(other).isEmpty)
  }
}
