// Both transports against a server that sends exactly what a test says.

import CuttingProxy
import Foundation
import ReplicaSync
import ReplicaWorld
import Testing
import URLSessionTransport

/// Answers each connection with the same bytes, and then is silent or closes it.
private final class FixedServer: Sendable {
  let port: UInt16
  private let descriptor: Int32

  init(_ answer: [UInt8], staysOpen: Bool = false) throws {
    let (descriptor, port) = try CuttingProxy.listen()
    (self.descriptor, self.port) = (descriptor, port)
    Thread {
      while true {
        let connection = accept(descriptor, nil, nil)
        guard connection >= 0 else { return }
        var request = [UInt8](repeating: 0, count: 4096)
        _ = read(connection, &request, request.count)
        _ = send(connection, answer, answer.count, Int32(MSG_NOSIGNAL))
        if staysOpen { _ = read(connection, &request, request.count) }
        close(connection)
      }
    }.start()
  }

  deinit { shutdown(descriptor, Int32(SHUT_RDWR)) }

  var url: String { "http://127.0.0.1:\(port)/" }
}

private let transports: [(name: String, transport: any Transport)] = [
  ("libcurl", CurlTransport()), ("URLSession", URLSessionTransport()),
]

@Suite struct TransportTests {
  /// `gzip` of "dunes at dawn".
  private static let zipped: [UInt8] = [
    0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 2, 3, 0x4b, 0x29, 0xcd, 0x4b, 0x2d, 0x56, 0x48, 0x2c, 0x51, 0x48, 0x49, 0x2c, 0xcf, 3,
    0, 0x4d, 0xaa, 0x75, 0x33, 0x0d, 0, 0, 0,
  ]

  private func answer(_ headers: String, _ body: [UInt8]) -> [UInt8] {
    Array("HTTP/1.1 200 OK\r\n\(headers)Content-Length: \(body.count)\r\n\r\n".utf8) + body
  }

  @Test(arguments: transports.indices) func `an answer is read without its content coding`(_ index: Int) async throws {
    let server = try FixedServer(answer("Content-Encoding: gzip\r\nX-Mark: a\r\n", Self.zipped))
    let response = try await transports[index].transport.send(TransportRequest("GET", server.url))
    #expect(response.status == 200 && response["x-mark"] == "a")
    #expect(String(decoding: response.body, as: UTF8.self) == "dunes at dawn")
  }

  @Test(arguments: transports.indices) func `an answer that is cut, none at all, and silence are errors`(
    _ index: Int
  ) async throws {
    let transport = transports[index].transport
    let whole = answer("", Array("dunes".utf8))
    for bytes in [Array(whole.dropLast(2)), [], Array("no HTTP".utf8)] {
      let server = try FixedServer(bytes)
      let error = await #expect(throws: TransportError.self) {
        try await transport.send(TransportRequest("GET", server.url))
      }
      #expect(error?.kind == .lost, "\(transports[index].name): \(String(describing: error))")
    }
    let silent = try FixedServer([], staysOpen: true)
    let error = await #expect(throws: TransportError.self) {
      try await transport.send(TransportRequest("GET", silent.url, timeout: .seconds(1)))
    }
    #expect(error?.kind == .timedOut)
  }

  @Test(arguments: transports.indices) func `a stream hands its pieces on, and ends when it is silent for too long`(
    _ index: Int
  ) async throws {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    let server = try FixedServer(Array((head + "8\r\ndata: x\n\r\n").utf8), staysOpen: true)
    let stream = try await transports[index].transport.stream(
      TransportRequest("GET", server.url), silence: .seconds(1))
    #expect(stream.status == 200)
    var received: [UInt8] = []
    await #expect(throws: (any Error).self) { for try await chunk in stream.chunks { received += chunk } }
    #expect(String(decoding: received, as: UTF8.self) == "data: x\n")
  }

  @Test(arguments: transports.indices) func `calls and streams follow no redirect, and a download does`(_ index: Int)
    async throws
  {
    let bucket = try FixedServer(answer("", Array("dunes".utf8)))
    let place = bucket.url + "content?signature=1"
    let redirect = "HTTP/1.1 302 Found\r\nLocation: \(place)\r\nContent-Length: 0\r\n\r\n"
    let gateway = try FixedServer(Array(redirect.utf8))
    let transport = transports[index].transport
    for method in ["GET", "POST"] {
      let answer = try await transport.send(
        TransportRequest(method, gateway.url, body: method == "POST" ? Array("{}".utf8) : nil))
      #expect(answer.status == 302 && answer["Location"] == place && answer.body.isEmpty)
    }
    let stream = try await transport.stream(TransportRequest("GET", gateway.url), silence: .seconds(5))
    #expect(stream.status == 302 && stream.location == place)
    let account = Account(server: gateway.url, apiToken: "", tokens: FixedToken(token: ""))
    let plane = ObjectPlane(
      account: account, container: "c", environment: "development", scope: "private", storeIdentifier: "s",
      transport: transport, surroundings: .system)
    let download = try await plane.download(gateway.url, from: 0)
    var received: [UInt8] = []
    for try await chunk in download.chunks { received += chunk }
    #expect(download.status == 200 && String(decoding: received, as: UTF8.self) == "dunes")
  }

  @Test(arguments: transports.indices) func `a request that is cancelled ends at once`(_ index: Int) async throws {
    let server = try FixedServer([], staysOpen: true)
    let transport = transports[index].transport
    let url = server.url
    let task = Task { () -> TransportError.Kind? in
      do throws(TransportError) {
        _ = try await transport.send(TransportRequest("GET", url, timeout: .seconds(60)))
        return nil
      } catch {
        return error.kind
      }
    }
    task.cancel()
    #expect(await task.value == .cancelled)
  }
}
