// The transport that a platform has: URLSession on Apple's, libcurl elsewhere.

import ReplicaSync

#if canImport(Darwin)
  import URLSessionTransport
#endif

enum SystemTransport {
  static func make() -> any Transport {
    #if canImport(Darwin)
      URLSessionTransport()
    #else
      CurlTransport()
    #endif
  }
}
