// Icons of providers on the sign-in page, and how browsers get them.

import HTTPServer
import Records
import ServiceBus
import Synchronization
import Testing

@testable import Gateway

@Suite struct ProviderIconTests {
  private static let picture = Array("<svg xmlns=\"http://www.w3.org/2000/svg\"/>".utf8)

  private func show(_ icon: ProviderIcon?, _ world: IdentityWorld) async throws -> HTTPResponse {
    world.gateway.record.withLock { record in
      record.providers = record.providers?.map { entry in
        var entry = entry
        entry.icon = icon
        return entry
      }
    }
    world.gateway.state.providers.expire()
    return await world.gateway.respond(.get, "/signin", query: [("state", try world.state())])
  }

  private func address(of page: HTTPResponse) throws -> (path: String, version: String) {
    let match = try #require(page.text.firstMatch(of: /<img class="icon" alt="" src="([^"?]+)\?v=([0-9a-f]{16})">/))
    return (String(match.output.1), String(match.output.2))
  }

  @Test func `the page shows a provider's icon, and a letter without one`() async throws {
    let world = try await IdentityWorld()
    let plain = try await show(nil, world)
    #expect(plain.text.contains(">A</span>Continue with") && !plain.text.contains("<img"))
    #expect(plain.header("Content-Security-Policy")?.contains("img-src") == false)
    let page = try await show(ProviderIcon(kind: .svg, bytes: Self.picture), world)
    #expect(!page.text.contains(">A</span>"))
    #expect(page.header("Content-Security-Policy")?.contains("default-src 'none'; ") == true)
    #expect(page.header("Content-Security-Policy")?.contains("; img-src 'self'; ") == true)
    let other = try await show(ProviderIcon(kind: .png, bytes: [1]), world)
    let (first, second) = (try address(of: page), try address(of: other))
    #expect(first.path == "/signin/icon/acme" && second.path == first.path && first.version != second.version)
  }

  @Test func `an icon comes as a picture of one kind that runs and fetches nothing`() async throws {
    let world = try await IdentityWorld()
    for (kind, type) in [(ProviderIcon.Kind.svg, "image/svg+xml"), (.png, "image/png")] {
      _ = try await show(ProviderIcon(kind: kind, bytes: Self.picture), world)
      let answer = await world.gateway.respond(.get, "/signin/icon/acme")
      #expect(answer.status == 200 && answer.text == String(decoding: Self.picture, as: UTF8.self))
      #expect(answer.header("Content-Type") == type && answer.header("X-Content-Type-Options") == "nosniff")
      #expect(answer.header("Content-Security-Policy") == "default-src 'none'; sandbox")
      #expect(answer.header("Cross-Origin-Resource-Policy") == "same-origin")
    }
    #expect(await world.gateway.respond(.get, "/signin/icon/rival").status == 404)
    _ = try await show(nil, world)
    #expect(await world.gateway.respond(.get, "/signin/icon/acme").status == 404)
  }
}
