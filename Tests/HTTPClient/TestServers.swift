// Servers for tests of the client: one that echoes requests, one that streams, one that sends arbitrary bytes.

import Glibc
import HTTPServer
import Synchronization

/// Answers with the request line, the headers, a zero byte and the body.
struct Echo: HTTPHandler {
  func respond(to request: HTTPRequest) async -> HTTPResponse {
    switch request.pathSegments.first {
    case "redirect": return HTTPResponse(status: 302, headers: [("Location", "/elsewhere")])
    case "failure": return HTTPResponse(status: 503)
    case "address": return HTTPResponse(status: 200, body: .bytes(Array(request.remoteAddress.utf8)))
    case "never":
      let (pieces, _) = AsyncStream<Void>.makeStream()
      for await _ in pieces {}
      return HTTPResponse(status: 200)
    default:
      var text = "\(request.method.rawValue) \(request.target)\n"
      for (name, value) in request.headers { text += "\(name): \(value)\n" }
      return HTTPResponse(status: 200, body: .bytes(Array(text.utf8) + [0] + request.body))
    }
  }

  func refusal(status: Int, reason: String) -> HTTPResponse { HTTPResponse(status: status) }
}

struct Streamer: HTTPHandler {
  let pieces: AsyncStream<[UInt8]>

  init(_ pieces: AsyncStream<[UInt8]>) { self.pieces = pieces }

  func respond(to request: HTTPRequest) async -> HTTPResponse {
    HTTPResponse(status: 200, headers: [("Content-Type", "text/event-stream")], body: .stream(pieces))
  }

  func refusal(status: Int, reason: String) -> HTTPResponse { HTTPResponse(status: status) }
}

struct SocketError: Error {
  let errno: Int32
}

/// Accepts one connection, reads to the end of a head, sends `answer` and closes.
final class RawServer: Sendable {
  let port: UInt16

  init(answer: [UInt8]) throws {
    let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
    var length = socklen_t(MemoryLayout<sockaddr_in>.size)
    let isListening = withUnsafeMutablePointer(to: &address) { address in
      address.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        bind(listener, $0, length) == 0 && listen(listener, 4) == 0 && getsockname(listener, $0, &length) == 0
      }
    }
    guard isListening else { throw SocketError(errno: errno) }
    port = UInt16(bigEndian: address.sin_port)
    let context = Unmanaged.passRetained(Job(listener: listener, answer: answer)).toOpaque()
    var thread = pthread_t()
    pthread_create(&thread, nil, serveOnce, context)
    pthread_detach(thread)
  }
}

private final class Job {
  let listener: Int32
  let answer: [UInt8]

  init(listener: Int32, answer: [UInt8]) {
    self.listener = listener
    self.answer = answer
  }
}

private func serveOnce(_ context: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
  guard let context else { return nil }
  let job = Unmanaged<Job>.fromOpaque(context).takeRetainedValue()
  let peer = accept(job.listener, nil, nil)
  close(job.listener)
  var received: [UInt8] = []
  while !received.suffix(4).elementsEqual("\r\n\r\n".utf8) {
    var byte: UInt8 = 0
    guard read(peer, &byte, 1) == 1 else { break }
    received.append(byte)
  }
  _ = send(peer, job.answer, job.answer.count, Int32(MSG_NOSIGNAL))
  close(peer)
  return nil
}
