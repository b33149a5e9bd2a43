// `tokens/register`, `tokens/unregister` and `tokens/key` for devices that vendors wake.

import HTTPServer
import JSON
import Records
import ServiceBus
import Testing

@testable import Gateway

@Suite struct SleepingDeviceTests {
  private static let prefix = "/device/1/\(GatewayWorld.container)/development/tokens"
  private static let key = "BP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A8"

  @Test func `Apple's token is registered in lower case, for the app's environment`() async throws {
    let world = try await GatewayWorld()
    let token = String(repeating: "AB", count: 32)
    for environment in ["development", "production"] {
      let answer = await world.alice(
        .post, Self.prefix + "/register",
        body: #"{"apnsToken":"\#(token)","apnsEnvironment":"\#(environment)","clientId":"phone"}"#)
      #expect(answer.status == 200 && answer.text == "{}")
    }
    let messages = world.pushRegistrations
    #expect(
      messages.map(\.address)
        == [true, false].map { .apns(deviceToken: token.lowercased(), isSandbox: $0) })
    #expect(messages.allSatisfy { $0.device.clientID == "phone" && $0.device.userRecordName == "_alice" })
    #expect(messages.allSatisfy { !$0.hearsEveryZone && !$0.device.grant.isEmpty })
  }

  @Test func `a browser's subscription is registered as it writes itself, and a server with its secret`() async throws {
    let world = try await GatewayWorld()
    let browser = """
      {"webPush":{"endpoint":"https://push.example/a?b","expirationTime":null,"keys":{"p256dh":"\(Self.key)=",\
      "auth":"BTBZMqHH6r4Tts7J_aSIgg"}},"everyZone":true}
      """
    #expect(await world.alice(.post, Self.prefix + "/register", body: browser).status == 200)
    let server = #"{"webhook":{"url":"https://app.example/hook","secret":"a secret of sixteen"}}"#
    #expect(await world.alice(.post, Self.prefix + "/register", body: server).status == 200)
    let messages = world.pushRegistrations
    #expect(messages.map(\.hearsEveryZone) == [true, false])
    guard case .web(let endpoint, let receiver, let secret) = messages.first?.address else {
      Issue.record("no browser was registered")
      return
    }
    #expect(endpoint == "https://push.example/a?b" && receiver.count == 65 && secret.count == 16)
    #expect(messages.last?.address == .webhook(url: "https://app.example/hook", secret: "a secret of sixteen"))
  }

  @Test(arguments: [
    ("{}", "apnsToken"), (#"{"apnsToken":7}"#, "apnsToken"), (#"{"webPush":{}}"#, "webPush.endpoint"),
    (#"{"webPush":{"endpoint":"http://push.example/a"}}"#, "webPush.endpoint"),
    (#"{"webPush":{"endpoint":"https://user@push.example/a"}}"#, "webPush.endpoint"),
    (#"{"webPush":{"endpoint":"https:///a"}}"#, "webPush.endpoint"),
    (#"{"webPush":{"endpoint":"https://push.example/a","keys":{"p256dh":"AAAA","auth":"AAAA"}}}"#, "p256dh"),
    (#"{"webPush":{"endpoint":"https://push.example/a","keys":{"p256dh":"\#(key)","auth":"AAAA"}}}"#, "auth"),
    (#"{"webhook":{"url":"ftp://a.example","secret":"a secret of sixteen"}}"#, "webhook.url"),
    (#"{"webhook":{"url":"https://a.example","secret":"short"}}"#, "webhook.secret"),
    (#"{"apnsToken":"ab","everyZone":1}"#, "everyZone"),
  ]) func `a malformed registration is refused by the name of its member`(body: String, word: String) async throws {
    let world = try await GatewayWorld()
    for call in ["register", "unregister"] {
      let answer = await world.alice(.post, "\(Self.prefix)/\(call)", body: body)
      #expect(answer.status == 400 && answer.text.contains(word), "\(answer.text)")
    }
    #expect(world.pushRegistrations.isEmpty)
  }

  @Test func `a browser is told when the container has no service for it, and a token that means nothing is accepted`()
    async throws
  {
    let world = try await GatewayWorld()
    world.refusePushes()
    let server = #"{"webhook":{"url":"https://app.example/hook","secret":"a secret of sixteen"}}"#
    let refused = await world.alice(.post, Self.prefix + "/register", body: server)
    #expect(refused.status == 400 && refused.text.contains("aquifer push add"))
    #expect(await world.alice(.get, Self.prefix + "/key").status == 404)
    for token in ["x", String(repeating: "ab", count: 32)] {
      #expect(await world.alice(.post, Self.prefix + "/register", body: #"{"apnsToken":"\#(token)"}"#).text == "{}")
    }
  }

  @Test func `a device is unregistered by its address, and only a signed-in user's`() async throws {
    let world = try await GatewayWorld()
    let server = #"{"webhook":{"url":"https://app.example/hook","secret":"a secret of sixteen"}}"#
    #expect(await world.alice(.post, Self.prefix + "/unregister", body: server).text == "{}")
    #expect(world.pushEnds.map(\.target) == ["webhook:https://app.example/hook"])
    #expect(world.pushEnds.map(\.userRecordName) == ["_alice"])
    for call in ["register", "unregister"] {
      #expect(
        await world.respond(
          .post, "\(Self.prefix)/\(call)", query: [("ckAPIToken", GatewayWorld.apiToken)], body: server
        ).status == 421)
    }
    #expect(world.pushRegistrations.isEmpty)
  }

  @Test func `pages get the key by the app's token`() async throws {
    let world = try await GatewayWorld()
    let answer = await world.respond(.get, Self.prefix + "/key", query: [("ckAPIToken", GatewayWorld.apiToken)])
    #expect(answer.status == 200 && answer.text == #"{"applicationServerKey":"BAcH"}"#)
    #expect(await world.respond(.get, Self.prefix + "/key").status == 401)
  }
}
