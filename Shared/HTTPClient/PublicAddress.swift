// Refuses connections to addresses that are not public, for URLs that strangers have chosen.

import CCurl
import Glibc

/// Judges addresses by the registries of special ones (RFC 6890).
enum PublicAddress {
  /// - Parameter bytes: four or sixteen.
  static func isPublic(_ bytes: [UInt8]) -> Bool {
    switch bytes.count {
    case 4: isPublicVersion4(bytes)
    case 16: isPublicVersion6(bytes)
    default: false
    }
  }

  private static func isPublicVersion4(_ bytes: [UInt8]) -> Bool {
    switch (bytes[0], bytes[1], bytes[2]) {
    case (0, _, _), (10, _, _), (127, _, _), (169, 254, _), (172, 16...31, _), (192, 168, _): false
    // Carriers' networks, protocol assignments, documentation, benchmarks.
    case (100, 64...127, _), (192, 0, 0), (192, 0, 2), (192, 88, 99), (198, 18...19, _), (198, 51, 100), (203, 0, 113):
      false
    // Multicast, reserved and broadcast.
    case (224..., _, _): false
    default: true
    }
  }

  private static func isPublicVersion6(_ bytes: [UInt8]) -> Bool {
    // Only 2000::/3 is assigned to the public, and parts of it carry addresses of version 4 or are documentation.
    guard bytes[0] & 0xe0 == 0x20 else {
      // 64:ff9b::/96 and ::ffff:0:0/96 stand for addresses of version 4.
      let isTranslated = bytes[..<12].elementsEqual([0, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0])
      let isMapped = bytes[..<12].elementsEqual([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff])
      return (isTranslated || isMapped) && isPublicVersion4(Array(bytes[12...]))
    }
    switch (bytes[0], bytes[1], bytes[2], bytes[3]) {
    case (0x20, 0x02, _, _): return isPublicVersion4(Array(bytes[2..<6]))
    case (0x20, 0x01, 0, 0), (0x20, 0x01, 0x0d, 0xb8): return false
    default: return true
    }
  }
}

/// Opens a socket for libcurl unless the address is not public.
func openPublicSocket(
  _ context: UnsafeMutableRawPointer?, _ purpose: curlsocktype, _ address: UnsafeMutablePointer<curl_sockaddr>
) -> curl_socket_t {
  let (family, type, kind) = (address.pointee.family, address.pointee.socktype, address.pointee.protocol)
  guard let offset = MemoryLayout<curl_sockaddr>.offset(of: \.addr) else { return -1 }
  // The structure's last member stands for an address of any length.
  let storage = UnsafeRawBufferPointer(
    start: UnsafeRawPointer(address) + offset, count: Int(address.pointee.addrlen))
  // Behind the family and the port, and in version 6 the flow.
  let range = family == AF_INET ? 4..<8 : 8..<24
  guard family == AF_INET || family == AF_INET6, range.upperBound <= storage.count,
    PublicAddress.isPublic(Array(storage[range]))
  else { return -1 }
  return socket(family, type | Int32(SOCK_CLOEXEC.rawValue), kind)
}
