// A TCP proxy that cuts connections after so many bytes, in either direction.

import Foundation
import Synchronization

/// Listens on a port of its own and passes bytes on to a server.
public final class CuttingProxy: Sendable {
  /// Where the next connections are cut; nil: nowhere.
  public struct Cut: Sendable {
    /// Bytes of the client's that pass, all connections together.
    public var requestByteCount: Int?
    /// Bytes of the server's that pass.
    public var answerByteCount: Int?
    /// True: once a connection was cut, the next ones are not.
    public var isOnce: Bool
    /// True: connections stay open and silent at the cut, until the next `set`.
    public var isSilent: Bool

    public init(
      requestByteCount: Int? = nil, answerByteCount: Int? = nil, isOnce: Bool = false, isSilent: Bool = false
    ) {
      self.requestByteCount = requestByteCount
      self.answerByteCount = answerByteCount
      self.isOnce = isOnce
      self.isSilent = isSilent
    }

    var isSet: Bool { requestByteCount != nil || answerByteCount != nil }
  }

  public struct NoFreePort: Error {}

  public let port: UInt16
  private let server: UInt16
  private let descriptor: Int32
  private let cut = Mutex(Cut())
  private let openDescriptors = Mutex<Set<Int32>>([])
  private let passed = Mutex((request: 0, answer: 0))

  public var address: String { "http://127.0.0.1:\(port)" }
  /// Bytes that passed since the last `set`.
  public var passedByteCounts: (request: Int, answer: Int) { passed.withLock { $0 } }

  /// False once a cut was made that happens once.
  public var willCut: Bool { cut.withLock(\.isSet) }

  /// - Parameter address: ends with a colon and the port of a server of this machine.
  public init(to address: String) throws {
    server = UInt16(address.split(separator: ":").last ?? "") ?? 0
    let (descriptor, port) = try Self.listen()
    self.descriptor = descriptor
    self.port = port
    Thread { [weak self, descriptor] in
      while true {
        let client = accept(descriptor, nil, nil)
        guard client >= 0, let self else { return }
        self.serve(client)
      }
    }.start()
  }

  deinit { close() }

  /// Ends all connections, and counts from 0.
  public func set(_ cut: Cut) {
    setWithinConnections(cut)
    openDescriptors.withLock { for descriptor in $0 { shutdown(descriptor, Int32(SHUT_RDWR)) } }
  }

  /// Counts from 0, and leaves connections open until they reach the cut.
  public func setWithinConnections(_ cut: Cut) {
    self.cut.withLock { $0 = cut }
    passed.withLock { $0 = (0, 0) }
  }

  public func close() { shutdown(descriptor, Int32(SHUT_RDWR)) }

  /// A listening socket at a port that was free.
  public static func listen() throws -> (Int32, UInt16) {
    for port in UInt16.random(in: 20_000..<30_000)..<32_000 {
      let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
      var address = Self.address(port)
      let isBound = withUnsafePointer(to: &address) {
        $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
          bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
        }
      }
      if isBound == 0, Foundation.listen(descriptor, 16) == 0 { return (descriptor, port) }
      Foundation.close(descriptor)
    }
    throw NoFreePort()
  }

  private static func address(_ port: UInt16) -> sockaddr_in {
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_port = port.bigEndian
    address.sin_addr.s_addr = inet_addr("127.0.0.1")
    return address
  }

  private func serve(_ client: Int32) {
    let upstream = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    var address = Self.address(server)
    let isConnected = withUnsafePointer(to: &address) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        connect(upstream, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
      }
    }
    guard isConnected == 0 else {
      Foundation.close(client)
      return
    }
    openDescriptors.withLock { $0.formUnion([client, upstream]) }
    let ends = Mutex(0)
    let end = Box(ends: ends)
    for (source, target, isRequest) in [(client, upstream, true), (upstream, client, false)] {
      Thread { [self] in
        copy(source, target, isRequest)
        shutdown(source, Int32(SHUT_RDWR))
        shutdown(target, Int32(SHUT_RDWR))
        guard end.isSecond() else { return }
        openDescriptors.withLock { $0.subtract([client, upstream]) }
        Foundation.close(client)
        Foundation.close(upstream)
      }.start()
    }
  }

  private final class Box: Sendable {
    private let ends: Mutex<Int>
    init(ends: consuming Mutex<Int>) { self.ends = ends }
    func isSecond() -> Bool {
      ends.withLock { count in
        count += 1
        return count == 2
      }
    }
  }

  private func copy(_ source: Int32, _ target: Int32, _ isRequest: Bool) {
    var buffer = [UInt8](repeating: 0, count: 65_536)
    while true {
      let count = read(source, &buffer, buffer.count)
      guard count > 0 else { return }
      let limit = cut.withLock { isRequest ? $0.requestByteCount : $0.answerByteCount }
      let before = passed.withLock { passed in
        defer { if isRequest { passed.request += count } else { passed.answer += count } }
        return isRequest ? passed.request : passed.answer
      }
      let allowed = limit.map { max(0, min(count, $0 - before)) } ?? count
      if allowed > 0, send(target, buffer, allowed, Int32(MSG_NOSIGNAL)) != allowed { return }
      if allowed < count {
        while cut.withLock({ $0.isSet && $0.isSilent }) { usleep(10_000) }
        cut.withLock { if $0.isOnce { $0 = Cut() } }
        return
      }
    }
  }
}
