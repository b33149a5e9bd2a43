// Connections of strangers to the bus, and their bytes.

import Glibc

@testable import ServiceBus

/// Bytes that a stranger may send to a ROUTER.
struct Garbage: Sendable {
  let bytes: @Sendable (inout Seeded) -> [UInt8]

  /// A ZMTP 3.0 greeting and a DEALER's READY command, after which the peer accepts frames.
  static let handshake: [UInt8] =
    [0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3, 0] + Array("NULL".utf8) + Array(repeating: 0, count: 16 + 1 + 31)
    + [4, 28, 5] + Array("READY".utf8) + [11] + Array("Socket-Type".utf8) + [0, 0, 0, 6] + Array("DEALER".utf8)

  /// A ZMTP 3.0 greeting with the mechanism CURVE.
  static let curveGreeting: [UInt8] =
    [0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3, 0] + Array("CURVE".utf8) + Array(repeating: 0, count: 15 + 1 + 31)

  /// A part of a message in ZMTP.
  static func frame(_ bytes: [UInt8], more: Bool = false) -> [UInt8] {
    if bytes.count < 256 { return [more ? 1 : 0, UInt8(bytes.count)] + bytes }
    return [more ? 3 : 2] + (0..<8).map { UInt8(truncatingIfNeeded: bytes.count >> (56 - 8 * $0)) } + bytes
  }

  static func header(_ kind: Frame.Kind) -> [UInt8] {
    let frame = Frame(kind: kind, correlation: 7, budget: 1000, name: "test.echo/1")
    var bytes = [UInt8](repeating: 0, count: frame.headerByteCount)
    bytes.withUnsafeMutableBytes { frame.writeHeader(into: $0) }
    return bytes
  }

  private static func random(_ count: Int, _ generator: inout Seeded) -> [UInt8] {
    (0..<count).map { _ in UInt8.random(in: 0...255, using: &generator) }
  }

  static let all: [Garbage] = [
    Garbage { random(Int.random(in: 1...200, using: &$0), &$0) },
    // An old peer without a version.
    Garbage { [1, 0, 2, 0] + random(50, &$0) },
    // Half a greeting.
    Garbage { _ in Array(handshake[..<20]) },
    // A frame that says it has 2^60 bytes.
    Garbage { _ in handshake + [2, 0x10, 0, 0, 0, 0, 0, 0, 0] },
    // Frames of random bytes.
    Garbage { generator in
      handshake + (0..<20).flatMap { _ in frame(random(Int.random(in: 0...100, using: &generator), &generator)) }
    },
    // A request, a reply and a cancellation of a peer that never announced itself.
    Garbage { _ in handshake + [.request, .reply, .cancel, .goodbye, .superseded].flatMap { frame(header($0)) } },
    // An announcement that does not decode.
    Garbage { handshake + frame(header(.announce), more: true) + frame(random(60, &$0)) },
    // Many parts.
    Garbage { _ in handshake + (0..<200).flatMap { _ in frame(header(.request), more: true) } + frame([]) },
    // A header cut short, and one of a later version.
    Garbage { _ in
      handshake + frame(Array(header(.request)[..<19])) + frame([0x41, 0x71, 9] + Array(header(.request)[3...]))
    },
  ]
}

/// A raw TCP connection.
struct Stranger {
  private let descriptor: Int32

  init?(port: UInt16) {
    descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_port = port.bigEndian
    address.sin_addr.s_addr = inet_addr("127.0.0.1")
    let result = withUnsafePointer(to: &address) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
      }
    }
    guard descriptor >= 0, result == 0 else { return nil }
  }

  /// Sends bytes. A peer takes no frames before it has answered the handshake, so those behind one wait for that.
  func send(_ bytes: [UInt8]) {
    guard bytes.starts(with: Garbage.handshake) else { return write(bytes) }
    write(Garbage.handshake)
    receive(until: "ROUTER")
    write(Array(bytes.dropFirst(Garbage.handshake.count)))
  }

  private func write(_ bytes: [UInt8]) { _ = Glibc.send(descriptor, bytes, bytes.count, Int32(MSG_NOSIGNAL)) }
  func close() { Glibc.close(descriptor) }

  /// Reads until a text has come or the connection has ended.
  private func receive(until text: String) {
    var bytes: [UInt8] = []
    var byte: UInt8 = 0
    while !bytes.suffix(text.utf8.count).elementsEqual(text.utf8), recv(descriptor, &byte, 1, 0) == 1 {
      bytes.append(byte)
    }
  }

  /// Bytes that the other end's kernel has not taken yet.
  var unacknowledgedByteCount: Int32 {
    var count: Int32 = -1
    return ioctl(descriptor, UInt(TIOCOUTQ), &count) == 0 ? count : -1
  }

  /// Ends the connection with an RST.
  func reset() {
    var now = linger(l_onoff: 1, l_linger: 0)
    setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &now, socklen_t(MemoryLayout<linger>.size))
    close()
  }
}
