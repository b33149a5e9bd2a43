import Records
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

  static let readers = [nil, "Trip", "", "a/b"].map {
    AssetURL.Reader(
      container: ContainerID(rawValue: "iCloud.org.example.photos")!, environment: .production, owner: "_alice",
      userRecordName: "_bob", zoneName: $0)
  }

  @Test(arguments: readers) func `a participant's path says who may read, and nobody can make it say something else`(
    reader: AssetURL.Reader
  ) {
    let bound = AssetURL(shard: 12, hash: url.hash, expiry: 1000, reader: reader)
    let parts = segments(bound.path(signedWith: key))
    #expect(parts.count == 7 && AssetURL(segments: parts, signedWith: key, now: 999) == bound)
    #expect(AssetURL(segments: parts, signedWith: key, now: 1000) == nil)
    for index in parts.indices {
      var altered = parts
      let last = altered[index].removeLast()
      altered[index].append(last == "1" ? "2" : "1")
      #expect(AssetURL(segments: altered, signedWith: key, now: 0) == nil)
    }
    // An address without its reader, or with an added one, is invalid.
    #expect(AssetURL(segments: Array(parts[..<5]) + [parts[6]], signedWith: key, now: 0) == nil)
    let free = segments(url.path(signedWith: key))
    #expect(AssetURL(segments: Array(free[..<5]) + [parts[5], free[5]], signedWith: key, now: 0) == nil)
    for other in Self.readers where other != reader {
      let theirs = segments(AssetURL(shard: 12, hash: url.hash, expiry: 1000, reader: other).path(signedWith: key))
      #expect(AssetURL(segments: Array(parts[..<5]) + [theirs[5], parts[6]], signedWith: key, now: 0) == nil)
    }
  }

  @Test(arguments: 0..<6)
  func `a path with any segment altered is refused`(index: Int) {
    var segments = segments(url.path(signedWith: key))
    let last = segments[index].removeLast()
    segments[index].append(last == "1" ? "2" : "1")
    #expect(AssetURL(segments: segments, signedWith: key, now: 0) == nil)
  }

  @Test(arguments: [
    [], ["assets"], ["assets", "1", "", "", "", ""], ["assets", "1", "0", "zz", "1", "zz"],
    ["assets", "1", "..", "..", "9999999999999999999999", "ab"],
  ])
  func `garbage is refused`(segments: [String]) {
    #expect(AssetURL(segments: segments, signedWith: key, now: 0) == nil)
  }
}
