// Opens the listening socket instead of libmicrohttpd, so that a failure names the address and the reason.

internal import CLinux
internal import CMicroHTTPD
internal import Glibc

/// A bound, listening, non-blocking TCP socket.
struct ListenSocket {
  let fd: Int32
  let port: UInt16

  init(_ configuration: HTTPServer.Configuration) throws(HTTPServer.StartError) {
    let address = configuration.address == "localhost" ? "127.0.0.1" : configuration.address
    let isIPv6 = address.contains(":")
    let fd = socket(
      isIPv6 ? AF_INET6 : AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue), 0)
    guard fd >= 0 else { throw Self.failure("open a socket for", configuration) }
    do throws(HTTPServer.StartError) {
      var on: Int32 = 1
      setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, socklen_t(MemoryLayout<Int32>.size))
      guard isIPv6 ? Self.bindIPv6(fd, address, configuration.port) : Self.bindIPv4(fd, address, configuration.port)
      else {
        throw Self.failure("listen on", configuration)
      }
      guard listen(fd, Int32(clamping: configuration.listenBacklog)) == 0 else {
        throw Self.failure("listen on", configuration)
      }
      port = Self.boundPort(fd, isIPv6: isIPv6)
      self.fd = fd
    } catch {
      Glibc.close(fd)
      throw error
    }
  }

  func close() { Glibc.close(fd) }

  private static func bindIPv4(_ fd: Int32, _ address: String, _ port: UInt16) -> Bool {
    var name = sockaddr_in()
    name.sin_family = sa_family_t(AF_INET)
    name.sin_port = port.bigEndian
    guard inet_pton(AF_INET, address, &name.sin_addr) == 1 else {
      errno = EINVAL
      return false
    }
    return withUnsafeBytes(of: &name) {
      bind(fd, $0.assumingMemoryBound(to: sockaddr.self).baseAddress, socklen_t($0.count)) == 0
    }
  }

  private static func bindIPv6(_ fd: Int32, _ address: String, _ port: UInt16) -> Bool {
    var name = sockaddr_in6()
    name.sin6_family = sa_family_t(AF_INET6)
    name.sin6_port = port.bigEndian
    guard inet_pton(AF_INET6, address, &name.sin6_addr) == 1 else {
      errno = EINVAL
      return false
    }
    return withUnsafeBytes(of: &name) {
      bind(fd, $0.assumingMemoryBound(to: sockaddr.self).baseAddress, socklen_t($0.count)) == 0
    }
  }

  private static func boundPort(_ fd: Int32, isIPv6: Bool) -> UInt16 {
    // Both kinds of address have the port at the same position.
    var name = sockaddr_in6()
    var length = socklen_t(MemoryLayout<sockaddr_in6>.size)
    return withUnsafeMutableBytes(of: &name) { bytes in
      let address = bytes.assumingMemoryBound(to: sockaddr.self).baseAddress
      guard getsockname(fd, address, &length) == 0 else { return 0 }
      return UInt16(bigEndian: bytes.loadUnaligned(fromByteOffset: 2, as: UInt16.self))
    }
  }

  private static func failure(_ what: String, _ configuration: HTTPServer.Configuration) -> HTTPServer.StartError {
    let code = errno
    let hint =
      switch code {
      case EADDRINUSE: "another process has that port; choose another, or 0 for any free one"
      case EACCES: "ports below 1024 need a privilege; choose a higher one"
      case EADDRNOTAVAIL: "this machine has no such address"
      case EINVAL: "the address is not an IP address"
      default: String(cString: strerror(code))
      }
    return HTTPServer.StartError(
      description: "Can't \(what) \(configuration.address):\(configuration.port): \(hint).", errno: code)
  }
}

/// The peer's IP address without port; empty when it is unknown.
func addressText(_ address: UnsafePointer<sockaddr>?) -> String {
  guard let address else { return "" }
  var text = [CChar](repeating: 0, count: Int(INET6_ADDRSTRLEN))
  let raw = UnsafeRawPointer(address)
  switch Int32(address.pointee.sa_family) {
  case AF_INET:
    var name = raw.loadUnaligned(as: sockaddr_in.self).sin_addr
    inet_ntop(AF_INET, &name, &text, socklen_t(text.count))
  case AF_INET6:
    var name = raw.loadUnaligned(as: sockaddr_in6.self).sin6_addr
    inet_ntop(AF_INET6, &name, &text, socklen_t(text.count))
  default: return ""
  }
  return String(decoding: text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
}
