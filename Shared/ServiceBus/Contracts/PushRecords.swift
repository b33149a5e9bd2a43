// What became of the pushes to sleeping devices, which only the notifiers that sent them know.

/// Asks a notifier about some devices. The answer's body is
/// `{"since","pushes":[{"registration","lastPush","delivered","failed","lastFailure"}]}`, with those that it has woken
/// since it began.
public struct FetchPushRecords: Message {
  public static let name = "notifier.push-records/1"
  public static let senders: Set<Role> = [.share]
  public static let isRepeatable = true
  public typealias Reply = Acknowledgement

  /// The most registrations of one question.
  public static let limit = 1000

  public let registrations: [Int64]

  public init(registrations: [Int64]) { self.registrations = registrations }
}
