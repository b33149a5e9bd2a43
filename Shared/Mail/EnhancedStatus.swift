// The status of three numbers that servers put before the text of an answer (RFC 3463).

struct EnhancedStatus: Hashable {
  let subject: Int
  let detail: Int

  /// nil for a line without the status of a permanent failure.
  /// - Parameter line: such as `553 5.7.1 Sender address rejected`.
  init?(ofAnswer line: [UInt8]) {
    let words = line.split(maxSplits: 2) { $0 <= UInt8(ascii: " ") }
    guard words.count > 1 else { return nil }
    let numbers = words[1].split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false).map { digits in
      digits.allSatisfy((UInt8(ascii: "0")...UInt8(ascii: "9")).contains)
        ? Int(String(decoding: digits, as: UTF8.self)) : nil
    }
    guard numbers.count == 3, numbers[0] == 5, let subject = numbers[1], let detail = numbers[2] else { return nil }
    self.subject = subject
    self.detail = detail
  }

  /// True for a failure that may be the sender's or the server's: most servers refuse a sender, and one without
  /// credentials, only when the receiver is named. The same mail may be taken once the operator has seen to it.
  var isOfSender: Bool {
    switch subject {
    // 0 says no more than that an address is meant, and servers use it for senders.
    case 1: [0, 7, 8].contains(detail)
    // The system, the protocol, and security or policy.
    case 3, 5, 7: true
    default: false
    }
  }
}
