// A client for strangers' URLs reaches no machine of its own network.

import HTTPServer
import Testing

@testable import HTTPClient

struct PublicAddressTests {
  @Test(arguments: [
    "0.0.0.0", "10.1.2.3", "127.0.0.1", "127.9.9.9", "169.254.169.254", "172.16.0.1", "172.31.255.255", "192.168.1.1",
    "100.64.0.1", "192.0.2.7", "198.18.0.1", "198.51.100.4", "203.0.113.9", "224.0.0.1", "255.255.255.255",
  ]) func `special addresses of version 4 are not public`(text: String) {
    let bytes = text.split(separator: ".").compactMap { UInt8($0) }
    #expect(bytes.count == 4 && !PublicAddress.isPublic(bytes))
    // The same address within version 6, mapped and translated.
    #expect(!PublicAddress.isPublic([UInt8](repeating: 0, count: 10) + [255, 255] + bytes))
    #expect(!PublicAddress.isPublic([0, 0x64, 0xff, 0x9b] + [UInt8](repeating: 0, count: 8) + bytes))
    #expect(!PublicAddress.isPublic([0x20, 0x02] + bytes + [UInt8](repeating: 1, count: 10)))
  }

  @Test(
    arguments: [[8, 8, 8, 8], [17, 188, 140, 3], [100, 63, 0, 1], [172, 32, 0, 1], [192, 169, 0, 1]] as [[UInt8]])
  func `other addresses of version 4 are public`(bytes: [UInt8]) {
    #expect(PublicAddress.isPublic(bytes))
    #expect(PublicAddress.isPublic([UInt8](repeating: 0, count: 10) + [255, 255] + bytes))
  }

  @Test func `of version 6 only the assigned addresses are public`() {
    func address(_ head: [UInt8]) -> [UInt8] { head + [UInt8](repeating: 0, count: 15 - head.count) + [1] }
    for head in [[], [0xfe, 0x80], [0xfc], [0xfd, 0], [0xff, 2], [0x20, 1, 0x0d, 0xb8], [0x20, 1, 0, 0], [1, 0]] {
      #expect(!PublicAddress.isPublic(address(head.map { UInt8($0) })), "\(head)")
    }
    for head in [[0x2a, 0, 0x14, 0x50], [0x20, 1, 0x48, 0x60], [0x26, 0x20]] {
      #expect(PublicAddress.isPublic(address(head.map { UInt8($0) })), "\(head)")
    }
    #expect(!PublicAddress.isPublic([]) && !PublicAddress.isPublic([8, 8, 8]))
  }

  @Test(arguments: ["127.0.0.1", "localhost", "0x7f.1", "2130706433"])
  func `a client for public addresses does not connect to this machine, however it is spelled`(host: String)
    async throws
  {
    let server = try HTTPServer(handler: Echo())
    let client = HTTPClient(reach: .publicAddresses)
    do throws(HTTPClientError) {
      _ = try await client.send("GET", "http://\(host):\(server.port)/")
      Issue.record("\(host) was reached")
    } catch {
      #expect(error.kind == .unreachable, "\(error)")
    }
    #expect(try await HTTPClient(reach: .everywhere).send("GET", "http://127.0.0.1:\(server.port)/").status == 200)
  }
}
