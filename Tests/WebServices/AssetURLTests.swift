import Testing
import WebServices

@Suite struct `Asset URLs` {
  let key = [UInt8](repeating: 7, count: 32)
  let url = AssetURL(shard: 12, hash: [UInt8](repeating: 0xcd, count: 32), expiry: 1000)

  func segments(_ path: String) -> [String] { path.split(separator: "/").map(String.init) }

  @Test func `a signed path is valid until it expires`() {
    let segments = segments(url.path(signedWith: key))
    #expect(AssetURL(segments: segments, signedWith: key, now: 999) == url)
    #expect(AssetURL(segments: segments, signedWith: key, now: 1000) == nil)
    #expect(AssetURL(segments: segments, signedWith: [1], now: 0) == nil)
  }

  @Test(arguments: 0..<6)
  func `a path with any segment altered is refused`(index: Int) {
    var segments = segments(url.path(signedWith: key))
    let last = segments[index].removeLast()
    segments[index].append(last == "1" ? "2" : "1")
    #expect(AssetURL(segments: segments, signedWith: key, now: 0) == nil)
  }

  @Test(arguments: [
    [], ["assets"], ["assets", "1", "", "", "", ""], ["assets", "1", "0", "zz", "1", "zz"], ["assets", "1", "..", "..", "9999999999999999999999", "ab"],
  ])
  func `garbage is refused`(segments: [String]) {
    #expect(AssetURL(segments: segments, signedWith: key, now: 0) == nil)
  }
}
