// The part of a request that is known before its body.

internal import CMicroHTTPD

struct RequestHead {
  /// `.get` for a HEAD, whose answer has no body.
  let method: HTTPMethod
  let isHead: Bool
  let target: String
  let parts: RequestTarget
  let headers: [(name: String, value: String)]

  /// The complete request.
  func request(body: [UInt8], sink: (any HTTPBodySink)?, on link: Link, _ configuration: HTTPServer.Configuration)
    -> HTTPRequest
  {
    let forwarding = configuration.forwarding(of: headers, from: link.remoteAddress)
    return HTTPRequest(
      method: method, isHead: isHead, target: target, pathSegments: parts.pathSegments, query: parts.query,
      headers: headers, body: body, sink: sink,
      remoteAddress: forwarding?.clientAddress ?? link.remoteAddress, forwardedOrigin: forwarding?.origin)
  }
}

/// The headers with names in lower case, and the policy that has checked all of them.
func readHeaders(_ connection: ConnectionHandle) -> (headers: [(name: String, value: String)], policy: HeaderPolicy) {
  struct Reading {
    var headers: [(name: String, value: String)] = []
    var policy = HeaderPolicy()
  }
  var reading = Reading()
  reading.headers.reserveCapacity(16)
  withUnsafeMutablePointer(to: &reading) { pointer in
    _ = MHD_get_connection_values_n(
      connection.pointer, .HEADER_KIND,
      { context, _, name, nameByteCount, value, valueByteCount in
        guard let reading = context?.assumingMemoryBound(to: Reading.self), let name else { return .NO }
        let lowerCase = String(unsafeUninitializedCapacity: nameByteCount) { buffer in
          for index in 0..<nameByteCount {
            let byte = UInt8(bitPattern: name[index])
            buffer[index] = (0x41...0x5a).contains(byte) ? byte | 0x20 : byte
          }
          return nameByteCount
        }
        let bytes = UnsafeBufferPointer(
          start: UnsafeRawPointer(value)?.assumingMemoryBound(to: UInt8.self), count: value == nil ? 0 : valueByteCount)
        reading.pointee.policy.take(name: lowerCase, value: bytes)
        var end = bytes.count
        while end > 0, bytes[end - 1] == UInt8(ascii: " ") || bytes[end - 1] == UInt8(ascii: "\t") { end -= 1 }
        reading.pointee.headers.append(
          (lowerCase, String(decoding: UnsafeBufferPointer(rebasing: bytes[..<end]), as: UTF8.self)))
        return .YES
      }, pointer)
  }
  return (reading.headers, reading.policy)
}
