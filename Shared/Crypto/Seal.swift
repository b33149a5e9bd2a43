// Encrypts and authenticates short texts with the installation's key: clients carry them but can neither read nor make
// them.

/// Authenticated encryption in the manner of SIV (RFC 5297), built from HMAC-SHA256 alone. The code over context and
/// content seeds the key stream, so no random number is needed. Equal contents in equal contexts give equal texts;
/// nothing else shows except the length.
///
/// For contents that fit into a token: the key stream costs one HMAC for each 32 bytes.
public struct Seal: Sendable {
  private let authenticationKey: [UInt8]
  private let encryptionKey: [UInt8]

  private static let codeByteCount = 16

  /// - Parameters:
  ///   - key: the installation's signing key.
  /// - purpose: separates uses of one key. A text sealed for one purpose cannot be opened for another.
  public init(key: [UInt8], purpose: String) {
    authenticationKey = HMACSHA256.code(for: Array("\(purpose) authentication".utf8), key: key)
    encryptionKey = HMACSHA256.code(for: Array("\(purpose) encryption".utf8), key: key)
  }

  /// - Parameter context: bytes that `open` has to repeat. The sealed text does not contain them.
  /// - Returns: 16 bytes more than `content`.
  public func seal(_ content: [UInt8], in context: [UInt8]) -> [UInt8] {
    let code = code(of: content, in: context)
    return code + stream(over: content[...], startingWith: code)
  }

  /// - Returns: the content; nil unless the text was sealed with this key, for this purpose, in this context.
  public func open(_ sealed: [UInt8], in context: [UInt8]) -> [UInt8]? {
    guard sealed.count >= Self.codeByteCount else { return nil }
    let code = Array(sealed.prefix(Self.codeByteCount))
    let content = stream(over: sealed.dropFirst(Self.codeByteCount), startingWith: code)
    return ConstantTime.areEqual(code, self.code(of: content, in: context)) ? content : nil
  }

  private func code(of content: [UInt8], in context: [UInt8]) -> [UInt8] {
    // The length prefix prevents bytes from moving between context and content.
    let length = withUnsafeBytes(of: UInt64(context.count).bigEndian) { Array($0) }
    return Array(HMACSHA256.code(for: length + context + content, key: authenticationKey).prefix(Self.codeByteCount))
  }

  private func stream(over bytes: ArraySlice<UInt8>, startingWith code: [UInt8]) -> [UInt8] {
    var result: [UInt8] = []
    result.reserveCapacity(bytes.count)
    var rest = bytes
    var block: UInt32 = 0
    while !rest.isEmpty {
      let number = withUnsafeBytes(of: block.bigEndian) { Array($0) }
      let key = HMACSHA256.code(for: code + number, key: encryptionKey)
      result += zip(rest.prefix(key.count), key).map { $0 ^ $1 }
      rest = rest.dropFirst(key.count)
      block += 1
    }
    return result
  }
}
