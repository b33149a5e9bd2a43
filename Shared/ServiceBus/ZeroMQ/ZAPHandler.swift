// Decides which keys may connect: libzmq asks this handler (ZAP, RFC 27) before it completes a handshake; without one,
// it admits any key.

import CZeroMQ

/// Answers libzmq's questions about keys, on the thread that owns the bus's sockets.
final class ZAPHandler {
  static let keyByteCount = 32
  private static let address = "inproc://zeromq.zap.01"
  private static let version = Array("1.0".utf8)
  private static let curve = Array("CURVE".utf8)

  private let handle: UnsafeMutableRawPointer
  /// Readable when there may be a question, after `answer` found none.
  let descriptor: Int32

  /// Must be made before a socket of the context is bound.
  /// - Throws: `BusError.refused` if it cannot be bound: nobody would be kept out then.
  init(in context: UnsafeMutableRawPointer) throws(BusError) {
    guard let handle = zmq_socket(context, ZMQ_REP) else {
      throw BusError(.refused, "no socket: \(ZeroMQSocket.lastError)")
    }
    guard zmq_bind(handle, Self.address) == 0 else {
      let reason = ZeroMQSocket.lastError
      zmq_close(handle)
      throw BusError(.refused, "keys cannot be checked: \(Self.address) cannot be bound: \(reason)")
    }
    self.handle = handle
    descriptor = ZeroMQSocket.descriptor(of: handle)
    // libzmq signals only sockets that were found empty; there can be no question yet.
    _ = nextQuestion()
  }

  func close() { zmq_close(handle) }

  /// Answers all questions: a listed key is admitted, and its text becomes the connection's `User-Id`.
  /// - Parameter refused: gets each key that is not listed; nil for a malformed question.
  func answer(_ known: KnownPeers, refused: (String?) -> Void) {
    while let parts = nextQuestion() {
      let key = Self.key(in: parts)
      let isKnown = key.map { known[$0] != nil } ?? false
      if !isKnown { refused(key) }
      let reply = [
        Self.version, parts.count > 1 ? parts[1] : [], Array((isKnown ? "200" : "400").utf8),
        Array((isKnown ? "" : "not listed").utf8),
        isKnown ? Array((key ?? "").utf8) : [], [],
      ]
      for (index, part) in reply.enumerated() {
        zmq_send(handle, part, part.count, ZMQ_DONTWAIT | (index < reply.count - 1 ? ZMQ_SNDMORE : 0))
      }
    }
  }

  /// The key of a question; its parts are version, request, domain, address, identity, mechanism, credentials.
  private static func key(in parts: [[UInt8]]) -> String? {
    guard parts.count == 7, parts[0] == version, parts[5] == curve, parts[6].count == keyByteCount else { return nil }
    var text = [CChar](repeating: 0, count: BusKeyPair.textByteCount + 1)
    guard zmq_z85_encode(&text, parts[6], keyByteCount) != nil else { return nil }
    return String(decoding: text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }

  private func nextQuestion() -> [[UInt8]]? {
    var parts: [[UInt8]] = []
    var message = zmq_msg_t()
    zmq_msg_init(&message)
    defer { zmq_msg_close(&message) }
    guard zmq_msg_recv(&message, handle, ZMQ_DONTWAIT) >= 0 else { return nil }
    parts.append(ZeroMQSocket.bytes(of: &message))
    while zmq_msg_more(&message) != 0, zmq_msg_recv(&message, handle, ZMQ_DONTWAIT) >= 0 {
      parts.append(ZeroMQSocket.bytes(of: &message))
    }
    return parts
  }
}
