// The addresses that mail is sent to: a part of RFC 5321 without quotes, comments and letters beyond ASCII.

/// An address that can stand in an envelope and a header as it is.
public struct MailAddress: Hashable, Sendable, CustomStringConvertible {
  public let description: String

  private static let localByteLimit = 64
  private static let byteLimit = 254
  private static let atoms = Set(
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789!#$%&'*+-/=?^_`{|}~".utf8)

  /// nil for any other text, so that no address ends its line or names a second receiver.
  public init?(_ text: String) {
    let parts = text.utf8.split(separator: UInt8(ascii: "@"), omittingEmptySubsequences: false)
    guard parts.count == 2, text.utf8.count <= Self.byteLimit, parts[0].count <= Self.localByteLimit else { return nil }
    let dot = UInt8(ascii: ".")
    let words = parts[0].split(separator: dot, omittingEmptySubsequences: false)
    guard words.allSatisfy({ !$0.isEmpty && $0.allSatisfy(Self.atoms.contains) }) else { return nil }
    let labels = parts[1].split(separator: dot, omittingEmptySubsequences: false)
    guard labels.count >= 2, labels.allSatisfy(Self.isLabel) else { return nil }
    description = text
  }

  private static func isLabel(_ label: some Collection<UInt8>) -> Bool {
    let hyphen = UInt8(ascii: "-")
    return (1...63).contains(label.count) && label.first != hyphen
      && label.allSatisfy { byte in
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
          UInt8(ascii: "0")...UInt8(ascii: "9"), hyphen:
          true
        default: false
        }
      }
  }
}
