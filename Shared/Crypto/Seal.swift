// Short texts that clients carry and can neither read nor make: encrypted and authenticated with the installation's key.

/// Authenticated encryption in the manner of SIV (RFC 5297), made of HMAC-SHA256 alone: the code over context and content is what the key stream
/// begins with. So it needs no random number; equal contents in equal contexts have equal texts, and nothing else shows but the length.
///
/// For what fits into a token: the key stream costs one HMAC for each 32 bytes.
public struct Seal: Sendable {
  private let authenticationKey: [UInt8]
  private let encryptionKey: [UInt8]

  private static let codeByteCount = 16

  /// - Parameters:
  ///   - key: the installation's signing key.
  ///   - purpose: so that what was sealed for something else with the same key is not opened.
  public init(key: [UInt8], purpose: String) {
    authenticationKey = HMACSHA256.code(for: Array("\(purpose) authentication".utf8), key: key)
    encryptionKey = HMACSHA256.code(for: Array("\(purpose) encryption".utf8), key: key)
  }

  /// - Parameter context: what has to be the same when it is opened; not part of the text.
  /// - Returns: 16 bytes more than `content`.
  public func seal(_ content: [UInt8], in context: [UInt8]) -> [UInt8] {
    let code = code(of: content, in: context)
    return code + stream(over: content[...], startingWith: code)
  }

  /// nil for anything that was not sealed with this key, for this purpose, in this context.
  public func open(_ sealed: [UInt8], in context: [UInt8]) -> [UInt8]? {
    guard sealed.count >= Self.codeByteCount else { return nil }
    let code = Array(sealed.prefix(Self.codeByteCount))
    let content = stream(over: sealed.dropFirst(Self.codeByteCount), startingWith: code)
    return ConstantTime.areEqual(code, self.code(of: content, in: context)) ? content : nil
  }

  private func code(of content: [UInt8], in context: [UInt8]) -> [UInt8] {
    // With its length, so that no byte can move between context and content.
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
