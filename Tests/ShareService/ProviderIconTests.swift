// Icons of providers: which pictures an operator can set, and how they are kept.

import Crypto
import JSON
import Records
import ServiceBus
import Testing

@testable import ShareService

@Suite(.eachEngine) struct ProviderIconTests {
  /// A transparent pixel.
  private static let png = Base64URL.decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk-M9QDwADhgGAWjR9awAAAABJRU5ErkJggg")

  /// The reason of a refusal; nil for a picture that is taken.
  private func refusal(_ bytes: [UInt8]) -> String? {
    do throws(RecordError) {
      _ = try ProviderIcon(checking: bytes)
      return nil
    } catch {
      #expect(error.code == .badRequest)
      return error.reason
    }
  }

  private func svg(_ content: String, _ attributes: String = "") -> [UInt8] {
    Array("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 8 8\" \(attributes)>\(content)</svg>".utf8)
  }

  @Test func `pictures that only draw are taken`() throws {
    #expect(try ProviderIcon(checking: try #require(Self.png)).kind == .png)
    let drawings = [
      "<path d='M0 0h8v8z' fill='#246'/>", "<g style='fill: url(#a)'><circle r='4'/></g>",
      "<defs><linearGradient id='a'><stop offset='0' stop-color='red'/></linearGradient></defs><use href='#a'/>",
      "<title>Work &amp; more</title>",
    ]
    for drawing in drawings { #expect(refusal(svg(drawing)) == nil, "\(drawing)") }
    #expect(try ProviderIcon(checking: svg(drawings[0])) == ProviderIcon(kind: .svg, bytes: svg(drawings[0])))
  }

  @Test(arguments: [
    ("<script>alert(1)</script>", "'script' in line 1"), ("<foreignObject><p/></foreignObject>", "'foreignObject'"),
    ("<style>@import 'https://evil.example/a.css'</style>", "'style'"), ("<a href='#x'/>", "'a'"),
    ("<image href='https://evil.example/pixel'/>", "'image'"), ("<animate attributeName='d'/>", "'animate'"),
    ("<g\n onclick='alert(1)'/>", "'onclick'"), ("<g ONLOAD='alert(1)'/>", "'ONLOAD'"),
    ("<use href='https://evil.example/a.svg#x'/>", "'href'"), ("<use href='javascript:alert(1)'/>", "'href'"),
    ("<use xmlns:x='http://www.w3.org/1999/xlink' x:href='data:image/svg+xml,x'/>", "href'"),
    ("<path fill='url(https://evil.example/a)'/>", "'fill'"), ("<path style='fill: URL( #a)'/>", "'style'"),
    ("<path style='fill: u\\72l(https://evil.example/a)'/>", "'style'"),
    ("<path d='M0 0'", "neither a PNG nor an SVG"),
  ])
  func `an SVG that runs or fetches something is refused, with the place`(content: String, word: String) {
    let reason = refusal(svg(content))
    #expect(reason?.contains(word) == true, "\(reason ?? "taken")")
  }

  @Test func `other files, damaged ones and long ones are refused`() throws {
    let png = try #require(Self.png)
    #expect(refusal(Array("<html><svg/></html>".utf8))?.contains("its root element is 'html'") == true)
    #expect(refusal(Array("GIF89a".utf8))?.contains("neither a PNG nor an SVG") == true)
    #expect(refusal(Array("<!DOCTYPE svg [<!ENTITY a 'b'>]><svg/>".utf8))?.contains("Entity declarations") == true)
    #expect(refusal(svg("", "onload='alert(1)'"))?.contains("'onload'") == true)
    for count in 8..<png.count { #expect(refusal(Array(png.prefix(count)))?.contains("damaged PNG") == true) }
    #expect(refusal(png + Array("<script>".utf8))?.contains("behind its end") == true)
    var large = png
    large[18] = 2
    large[19] = 1
    #expect(refusal(large)?.contains("513 by 1 pixels") == true)
    large[18...19] = [0, 0]
    #expect(refusal(large)?.contains("0 by 1 pixels") == true)
    let text = String(repeating: "x", count: ProviderIcon.byteLimit)
    #expect(refusal(svg("<desc>\(text)</desc>"))?.contains("16384 at most") == true)
  }

  @Test func `an icon is kept, replaced and taken away, and gateways hear of it`() async throws {
    let world = try await World.withContainer()
    let path = "/admin/1/identities/work"
    try await world.ok(
      "POST", "/admin/1/identities", #"{"name":"work","issuer":"https://id.example.org","clientID":"a"}"#)
    let picture = svg("<path d='M0 0h8v8z'/>")
    let text = String(decoding: picture, as: UTF8.self)
    #expect(try await world.ok("PUT", path + "/icon", text)["icon"]?.string == "svg")
    #expect(try await world.ok("GET", "/admin/1/identities")["identities"]?.elements.first?["icon"]?.string == "svg")
    let restarted = try await world.restarted()
    let entry = try #require(try await restarted.service.directory.identityProviders().first?.entry)
    #expect(entry.icon == ProviderIcon(kind: .svg, bytes: picture) && entry.clientID == "a")
    try await restarted.refused("PUT", path + "/icon", "<svg><script/></svg>", status: 400)
    #expect(try await restarted.service.directory.identityProviders().first?.entry.icon?.bytes == picture)
    #expect(try await restarted.ok("PUT", path + "/icon")["icon"]?.string == "none")
    #expect(try await restarted.service.directory.identityProviders().first?.entry.icon == nil)
    try await restarted.refused("PUT", "/admin/1/identities/absent/icon", status: 404)
    #expect(world.published.take().count == 2 && restarted.published.take().count == 1)
  }
}
