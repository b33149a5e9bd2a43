import Testing

@testable import S3

/// Contents that are cut into parts.
struct PartTests {
  private static let content = (0..<(2 * S3Parts.partByteCount + 7)).map { UInt8(truncatingIfNeeded: $0 &* 31) }

  @Test(arguments: [
    [1, 64_000, 300_000], [S3Parts.partByteCount], [S3Parts.partByteCount + 1], [content.count],
    [S3Parts.partByteCount - 1, 2, 0],
  ])
  func `parts are full but for the last, and it is held until the end`(lengths: [Int]) {
    for byteCount in [0, 1, S3Parts.partByteCount, 2 * S3Parts.partByteCount, Self.content.count] {
      let content = Self.content.prefix(byteCount)
      var (parts, found, rest, place) = (S3Parts(), [[UInt8]](), content, 0)
      while !rest.isEmpty {
        found += parts.add(Array(rest.prefix(lengths[place % lengths.count])))
        rest = rest.dropFirst(lengths[place % lengths.count])
        place += 1
      }
      #expect(found.allSatisfy { $0.count == S3Parts.partByteCount && $0.capacity < S3Parts.partByteCount * 11 / 10 })
      found.append(parts.finish())
      #expect(found.count == max(1, (byteCount + S3Parts.partByteCount - 1) / S3Parts.partByteCount))
      #expect(found.reduce(into: []) { $0 += $1 } == Array(content))
    }
  }
}
