// A mail server that refuses one command, for one conversation.

import Foundation
import Testing

/// A socket that listens on this machine.
final class Listener: Sendable {
  let socket: Int32
  let port: UInt16

  init() throws {
    socket = Glibc.socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
    var size = socklen_t(MemoryLayout<sockaddr_in>.size)
    let socket = socket
    port = try withUnsafeMutablePointer(to: &address) { pointer in
      try pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { pointer in
        try #require(bind(socket, pointer, size) == 0 && listen(socket, 1) == 0)
        try #require(getsockname(socket, pointer, &size) == 0)
      }
      return UInt16(bigEndian: pointer.pointee.sin_port)
    }
  }

  deinit { close(socket) }
}

struct MailConversation {
  private let listener: Listener
  /// A command, or `.` for the end of a mail.
  private let refused: String
  private let refusal: String

  init(_ listener: Listener, refused: String, answer: String) {
    self.listener = listener
    self.refused = refused
    refusal = answer
  }

  /// Blocks the thread until the client is gone.
  func run() {
    let connection = accept(listener.socket, nil, nil)
    defer { close(connection) }
    var isContent = false
    Self.say("220 ready", connection)
    while let line = Self.line(connection) {
      let command = isContent ? line : String(line.prefix(4)).uppercased()
      if isContent, line != "." { continue }
      isContent = command == "DATA" && refused != "DATA"
      Self.say(answer(to: command), connection)
    }
  }

  private func answer(to command: String) -> String {
    // A client whose EHLO is refused says HELO.
    if command == refused || refused == "EHLO" && command == "HELO" { return refusal }
    return command == "DATA" ? "354 go on" : "250 done"
  }

  private static func say(_ text: String, _ connection: Int32) {
    let bytes = Array((text + "\r\n").utf8)
    _ = send(connection, bytes, bytes.count, Int32(MSG_NOSIGNAL))
  }

  /// nil at the end.
  private static func line(_ connection: Int32) -> String? {
    var bytes: [UInt8] = []
    var byte: UInt8 = 0
    while read(connection, &byte, 1) == 1 {
      if byte == UInt8(ascii: "\n") { return String(decoding: bytes, as: UTF8.self) }
      if byte != UInt8(ascii: "\r") { bytes.append(byte) }
    }
    return nil
  }
}
