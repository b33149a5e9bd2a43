// A ZeroMQ socket as the bus uses it: options set once, whole frames in and out, never blocking. Only one thread may
// use it.

import CZeroMQ
import Glibc

/// A socket, and the monitor that reports its connections.
///
/// Its descriptor signals news only once, and any call on the socket may swallow that signal. The thread may wait for
/// the descriptor only if it has found the socket empty since its last use (`mayHaveFrames`); otherwise messages would
/// lie there unseen.
final class ZeroMQSocket {
  enum Kind { case router, dealer }

  /// The keys that a socket proves, and those it asks of others.
  enum Keys {
    case none
    /// Accepts only connections with a key that the ZAP handler admits.
    case bound(BusKeyPair)
    /// Completes the handshake only with the holder of that public key.
    case connecting(BusKeyPair, to: String)
  }

  enum Sent {
    case sent
    /// The peer does not take the frame now.
    case wouldBlock
    /// There is no such connection.
    case unreachable
  }

  enum Received {
    /// The frame; from a ROUTER with the route's number and, if it asks for keys, the sender's key; from a DEALER with
    /// 0 and nil.
    case frame(Frame, route: UInt32, key: String?)
    /// Bytes that are no frame of this protocol; dropped.
    case malformed
    case nothing
  }

  enum ConnectionEvent {
    case established, lost
    /// The connection ended during its handshake.
    case refused(Refusal)
  }

  enum Refusal {
    /// The peer does not know this process's key.
    case key
    /// Only one side has a key, or the keys do not match.
    case mechanism
    /// No reason is known: the peer's key is wrong, or the peer has ended.
    case silent
  }

  private let handle: UnsafeMutableRawPointer
  private let monitor: UnsafeMutableRawPointer
  private let kind: Kind
  private let asksForKeys: Bool
  /// Readable when there may be news.
  let descriptor: Int32
  let monitorDescriptor: Int32
  /// True if the socket was used since it was last found empty.
  private(set) var mayHaveFrames = true

  /// - Parameter monitorName: unique in the context.
  init(
    _ kind: Kind, in context: UnsafeMutableRawPointer, _ configuration: BusConfiguration, keys: Keys = .none,
    monitorName: String
  ) throws(BusError) {
    guard let handle = zmq_socket(context, kind == .router ? ZMQ_ROUTER : ZMQ_DEALER) else {
      throw BusError(.refused, "no socket: \(Self.lastError)")
    }
    guard let monitor = zmq_socket(context, ZMQ_PAIR) else {
      zmq_close(handle)
      throw BusError(.refused, "no socket: \(Self.lastError)")
    }
    self.handle = handle
    self.monitor = monitor
    self.kind = kind
    asksForKeys = if case .bound = keys { true } else { false }
    descriptor = Self.descriptor(of: handle)
    monitorDescriptor = Self.descriptor(of: monitor)
    let queueCount = Int32(clamping: configuration.socketQueueCount)
    // The kernel gives a connection up a little before the exchange does. libzmq's own heartbeats must stay off: 4.3.4
    // aborts the process if one is due for a connection that was reset while its messages waited to be received.
    let silence = Int32(clamping: configuration.liveness.milliseconds * 3 / 4)
    let idleSeconds = Int32(clamping: min(max(1, configuration.liveness.milliseconds / 1000), 30_000))
    for (option, value) in [
      (ZMQ_IMMEDIATE, 1), (ZMQ_HANDSHAKE_IVL, 2000), (ZMQ_HEARTBEAT_IVL, 0), (ZMQ_TCP_MAXRT, silence),
      (ZMQ_TCP_KEEPALIVE, 1), (ZMQ_TCP_KEEPALIVE_IDLE, idleSeconds), (ZMQ_TCP_KEEPALIVE_INTVL, idleSeconds),
      (ZMQ_RECONNECT_IVL, 10), (ZMQ_RECONNECT_IVL_MAX, 500), (ZMQ_BACKLOG, 1024), (ZMQ_LINGER, 300),
      (ZMQ_SNDHWM, queueCount), (ZMQ_RCVHWM, queueCount),
    ] as [(Int32, Int32)] { set(option, value) }
    if kind == .router { set(ZMQ_ROUTER_MANDATORY, 1) }
    // Large enough for a header and a part. Without a limit, nine bytes of any stranger would reserve gigabytes.
    var longest = Int64(max(configuration.partByteLimit, Frame.fixedHeaderByteCount + 2 * Frame.textByteLimit))
    zmq_setsockopt(handle, ZMQ_MAXMSGSIZE, &longest, 8)
    guard apply(keys) else {
      close()
      throw BusError(.refused, "libzmq takes no key: \(Self.lastError)")
    }
    let events =
      ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL
      | ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL
      | (kind == .dealer ? ZMQ_EVENT_HANDSHAKE_SUCCEEDED : 0)
    let address = "inproc://monitor-\(monitorName)"
    guard zmq_socket_monitor(handle, address, events) == 0, zmq_connect(monitor, address) == 0 else {
      close()
      throw BusError(.refused, "no socket monitor: \(Self.lastError)")
    }
    // libzmq signals only sockets that were found empty; there can be no event yet.
    _ = nextEvent()
  }

  private func set(_ option: Int32, _ value: Int32) {
    var value = value
    zmq_setsockopt(handle, option, &value, 4)
  }

  /// - Returns: whether libzmq accepted the keys; without them the socket would send unencrypted.
  private func apply(_ keys: Keys) -> Bool {
    switch keys {
    case .none: return true
    case .bound(let own):
      set(ZMQ_CURVE_SERVER, 1)
      return set(ZMQ_CURVE_SECRETKEY, own.secretKey) && set(ZMQ_ZAP_DOMAIN, "aquifer")
    case .connecting(let own, let server):
      return set(ZMQ_CURVE_SERVERKEY, server) && set(ZMQ_CURVE_PUBLICKEY, own.publicKey)
        && set(ZMQ_CURVE_SECRETKEY, own.secretKey)
    }
  }

  private func set(_ option: Int32, _ text: String) -> Bool {
    zmq_setsockopt(handle, option, text, text.utf8.count) == 0
  }

  static func descriptor(of socket: UnsafeMutableRawPointer) -> Int32 {
    var descriptor: Int32 = -1
    var byteCount = MemoryLayout<Int32>.size
    zmq_getsockopt(socket, ZMQ_FD, &descriptor, &byteCount)
    return descriptor
  }

  static var lastError: String { String(cString: zmq_strerror(zmq_errno())) }

  func bind(_ endpoint: String) throws(BusError) -> String {
    guard zmq_bind(handle, endpoint) == 0 else {
      throw BusError(.refused, "\(endpoint) cannot be bound: \(Self.lastError)")
    }
    var bytes = [CChar](repeating: 0, count: 512)
    var count = bytes.count
    guard zmq_getsockopt(handle, ZMQ_LAST_ENDPOINT, &bytes, &count) == 0, count > 0 else {
      throw BusError(.refused, "\(endpoint): \(Self.lastError)")
    }
    return String(decoding: bytes[..<(count - 1)].map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }

  func connect(_ endpoint: String) throws(BusError) {
    guard zmq_connect(handle, endpoint) == 0 else { throw BusError(.refused, "\(endpoint): \(Self.lastError)") }
  }

  func close() {
    zmq_socket_monitor(handle, nil, 0)
    for socket in [handle, monitor] { zmq_close(socket) }
  }

  /// The next connection event; nil if there is none.
  func nextEvent() -> ConnectionEvent? {
    while true {
      var message = zmq_msg_t()
      zmq_msg_init(&message)
      defer { zmq_msg_close(&message) }
      guard zmq_msg_recv(&message, monitor, ZMQ_DONTWAIT) >= 0 else { return nil }
      let event = zmq_msg_size(&message) >= 2 ? zmq_msg_data(&message).loadUnaligned(as: UInt16.self) : 0
      while zmq_msg_more(&message) != 0, zmq_msg_recv(&message, monitor, ZMQ_DONTWAIT) >= 0 {}
      switch Int32(event) {
      case ZMQ_EVENT_HANDSHAKE_SUCCEEDED: return .established
      case ZMQ_EVENT_DISCONNECTED: return .lost
      case ZMQ_EVENT_HANDSHAKE_FAILED_AUTH: return .refused(.key)
      case ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL: return .refused(.mechanism)
      case ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL: return .refused(.silent)
      default: continue
      }
    }
  }
}

// MARK: Frames

extension ZeroMQSocket {
  /// The length of routing IDs that libzmq draws: a zero byte and four more. Other IDs are a stranger's choice.
  private static var routeByteCount: Int { 5 }

  /// Sends `[route] [header] [arguments] [body]`, without trailing empty parts.
  func send(_ frame: Frame, route: UInt32) -> Sent {
    mayHaveFrames = true
    let parts = frame.body.isEmpty ? (frame.arguments.isEmpty ? 1 : 2) : 3
    if kind == .router {
      let result = sendPart(byteCount: Self.routeByteCount, more: true) { bytes in
        bytes[0] = 0
        bytes.storeBytes(of: route, toByteOffset: 1, as: UInt32.self)
      }
      guard result == .sent else { return result }
    }
    let result = sendPart(byteCount: frame.headerByteCount, more: parts > 1) { frame.writeHeader(into: $0) }
    guard result == .sent else { return result }
    if parts > 1 {
      _ = sendPart(byteCount: frame.arguments.count, more: parts > 2) { bytes in
        frame.arguments.withUnsafeBytes { bytes.copyMemory(from: $0) }
      }
    }
    if parts > 2 { _ = frame.body.count > Self.copiedByteCount ? sendLent(frame.body) : sendCopied(frame.body) }
    return .sent
  }

  /// The longest body that is copied: the storage of a longer one is lent to libzmq.
  private static let copiedByteCount = 8192

  private func sendCopied(_ body: [UInt8]) -> Sent {
    sendPart(byteCount: body.count, more: false) { bytes in body.withUnsafeBytes { bytes.copyMemory(from: $0) } }
  }

  /// Lends an array's storage, which stays in place as long as it is referenced and unchanged, as the last part.
  private func sendLent(_ body: [UInt8]) -> Sent {
    let lent = Unmanaged.passRetained(LentBytes(body))
    let address = body.withUnsafeBytes { UnsafeMutableRawPointer(mutating: $0.baseAddress) }
    var message = zmq_msg_t()
    guard zmq_msg_init_data(&message, address, body.count, releaseLentBytes, lent.toOpaque()) == 0 else {
      lent.release()
      return .wouldBlock
    }
    return send(&message, more: false)
  }

  /// Copies once: libzmq keeps the memory beyond the call.
  private func sendPart(byteCount: Int, more: Bool, _ fill: (UnsafeMutableRawBufferPointer) -> Void) -> Sent {
    var message = zmq_msg_t()
    guard zmq_msg_init_size(&message, byteCount) == 0 else { return .wouldBlock }
    fill(UnsafeMutableRawBufferPointer(start: zmq_msg_data(&message), count: byteCount))
    return send(&message, more: more)
  }

  private func send(_ message: inout zmq_msg_t, more: Bool) -> Sent {
    if zmq_msg_send(&message, handle, ZMQ_DONTWAIT | (more ? ZMQ_SNDMORE : 0)) >= 0 { return .sent }
    let error = zmq_errno()
    zmq_msg_close(&message)
    return error == EAGAIN ? .wouldBlock : .unreachable
  }

  /// Receives one frame; parts beyond the body are skipped.
  func receive() -> Received {
    var message = zmq_msg_t()
    zmq_msg_init(&message)
    defer { zmq_msg_close(&message) }
    guard zmq_msg_recv(&message, handle, ZMQ_DONTWAIT) >= 0 else {
      mayHaveFrames = false
      return .nothing
    }
    mayHaveFrames = true
    var route: UInt32? = 0
    if kind == .router {
      route = Self.route(of: &message)
      guard nextPart(&message) else { return .malformed }
    }
    let key = asksForKeys ? Self.senderKey(of: &message) : nil
    var frame = Frame(header: UnsafeRawBufferPointer(start: zmq_msg_data(&message), count: zmq_msg_size(&message)))
    if nextPart(&message) { frame?.arguments = Self.bytes(of: &message) }
    if nextPart(&message) { frame?.body = Self.bytes(of: &message) }
    while nextPart(&message) {}
    guard let frame, let route else { return .malformed }
    return .frame(frame, route: route, key: key)
  }

  /// The parts of a message arrive together, so the next one is there.
  private func nextPart(_ message: inout zmq_msg_t) -> Bool {
    zmq_msg_more(&message) != 0 && zmq_msg_recv(&message, handle, ZMQ_DONTWAIT) >= 0
  }

  private static func route(of message: inout zmq_msg_t) -> UInt32? {
    guard zmq_msg_size(&message) == routeByteCount, let bytes = zmq_msg_data(&message), bytes.load(as: UInt8.self) == 0
    else { return nil }
    return bytes.loadUnaligned(fromByteOffset: 1, as: UInt32.self)
  }

  /// The sender's key, as the ZAP handler noted it.
  private static func senderKey(of message: inout zmq_msg_t) -> String? {
    zmq_msg_gets(&message, "User-Id").map { String(cString: $0) }
  }

  static func bytes(of message: inout zmq_msg_t) -> [UInt8] {
    let count = zmq_msg_size(&message)
    guard count > 0, let data = zmq_msg_data(&message) else { return [] }
    return [UInt8](unsafeUninitializedCapacity: count) { buffer, initializedCount in
      UnsafeMutableRawBufferPointer(buffer).copyMemory(from: UnsafeRawBufferPointer(start: data, count: count))
      initializedCount = count
    }
  }
}

/// Keeps a body until libzmq has sent it.
private final class LentBytes: Sendable {
  private let bytes: [UInt8]

  init(_ bytes: [UInt8]) { self.bytes = bytes }
}

/// libzmq calls it from a thread of its own.
private func releaseLentBytes(_ data: UnsafeMutableRawPointer?, _ lent: UnsafeMutableRawPointer?) {
  guard let lent else { return }
  Unmanaged<LentBytes>.fromOpaque(lent).release()
}
