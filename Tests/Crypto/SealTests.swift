// Sealed texts open in the context that they were made for, and in no other.

import Crypto
import Testing

struct SealTests {
  private let seal = Seal(key: [1, 2, 3], purpose: "test")

  @Test(arguments: [0, 1, 15, 16, 31, 32, 33, 1000]) func `a sealed value is opened in its context alone`(count: Int) {
    let content = (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 7) }
    let sealed = seal.seal(content, in: [9])
    #expect(sealed.count == count + 16)
    #expect(seal.open(sealed, in: [9]) == content)
    #expect(seal.open(sealed, in: []) == nil)
    #expect(Seal(key: [1, 2, 4], purpose: "test").open(sealed, in: [9]) == nil)
    #expect(Seal(key: [1, 2, 3], purpose: "tests").open(sealed, in: [9]) == nil)
    for index in sealed.indices {
      var altered = sealed
      altered[index] ^= 0x10
      #expect(seal.open(altered, in: [9]) == nil)
    }
    for cut in 0..<min(sealed.count, 40) { #expect(seal.open(Array(sealed.prefix(cut)), in: [9]) == nil) }
    #expect(seal.open(sealed + [0], in: [9]) == nil)
  }

  @Test func `nothing shows of the content, and no byte moves into the context`() {
    let zeros = [UInt8](repeating: 0, count: 64)
    let (first, second) = (seal.seal(zeros, in: []), seal.seal(zeros.dropLast() + [1], in: []))
    #expect(first != second && zip(first, second).count(where: ==) < 16, "a change anywhere changes everything")
    #expect(Set(stride(from: 16, to: 80, by: 32).map { Array(first[$0..<$0 + 32]) }).count == 2)
    #expect(seal.seal([2], in: [1]) != seal.seal([1, 2], in: []))
    #expect(seal.open(seal.seal([2, 3], in: [1]), in: [1, 2]) == nil)
  }
}
