// The people who look after an installation: their roles, their sessions in the console, and the audit of their calls.

public import Records

/// The caller of an operator call: an operator, or a developer of some containers.
public struct StaffMember: Hashable, Sendable, Codable {
  public enum Role: String, Codable, Sendable {
    case `operator`, developer
  }

  /// The user's name; for the operator token's holder, `tokenName`.
  public let name: String
  /// A developer's containers, ascending; nil for an operator, who sees all.
  public let containers: [String]?

  /// No user has this name: users' names do not begin with '_'.
  public static let tokenName = "_operator"
  /// The holder of the operator token.
  public static let tokenHolder = StaffMember(name: tokenName, containers: nil)

  public init(name: String, containers: [String]?) {
    self.name = name
    self.containers = containers
  }

  public var role: Role { containers == nil ? .operator : .developer }

  public func maySee(_ container: ContainerID) -> Bool { containers?.contains(container.rawValue) ?? true }

  /// Names the member as the device of a change, in audits of records.
  public var deviceID: String { name == Self.tokenName ? "operator" : "operator \(name)" }
}

/// Credentials for a session in the console: the operator token, or a name and a password. Every attempt counts.
public struct OpenConsole: Message {
  public static let name = "directory.console-open/1"
  public static let senders: Set<Role> = [.gateway]
  public static let isRepeatable = false

  public struct Reply: Codable, Sendable {
    /// The session's token; nil if there is none.
    public let token: String?
    /// Seconds until the next attempt counts.
    public let retryAfter: Int?
    /// The name and the password are right, but the user has no role.
    public let lacksRole: Bool

    public init(token: String? = nil, retryAfter: Int? = nil, lacksRole: Bool = false) {
      self.token = token
      self.retryAfter = retryAfter
      self.lacksRole = lacksRole
    }
  }

  public enum Entry: Codable, Sendable {
    case operatorToken(String)
    /// The name as typed.
    case user(name: String, password: String)
  }

  public let entry: Entry
  /// The address whose attempts are counted together.
  public let clientAddress: String

  public init(_ entry: Entry, clientAddress: String) {
    self.entry = entry
    self.clientAddress = clientAddress
  }
}

/// Ends a session of the console. A repetition has no further effect.
public struct CloseConsole: Message {
  public static let name = "directory.console-close/1"
  public static let senders: Set<Role> = [.gateway]
  public static let isRepeatable = true
  public typealias Reply = Acknowledgement

  public let token: String

  public init(token: String) { self.token = token }
}

/// Notes durably that a member of the staff is about to change something that a worker keeps. The share service notes
/// the calls that it answers itself.
public struct NoteAct: Message {
  public static let name = "directory.act/1"
  public static let senders: Set<Role> = [.gateway]
  /// A repetition is noted once more.
  public static let isRepeatable = true

  public struct Reply: Codable, Sendable {
    /// Names the act for `EndAct`.
    public let number: Int64

    public init(number: Int64) { self.number = number }
  }

  public let act: Act

  public init(_ act: Act) { self.act = act }

  /// A call, without its body and its credentials.
  public struct Act: Hashable, Codable, Sendable {
    public let member: StaffMember
    /// nil for a call on the installation.
    public let container: ContainerID?
    public let method: String
    /// Percent-decoded, joined by slashes.
    public let path: String
    public let query: String

    public init(_ member: StaffMember, container: ContainerID?, method: String, path: [String], query: [String: String])
    {
      self.member = member
      self.container = container
      self.method = method
      self.path = "/" + path.joined(separator: "/")
      self.query = query.sorted { $0.key < $1.key }.map { "\($0.key)=\($0.value)" }.joined(separator: "&")
    }
  }
}

/// Adds the HTTP status of a finished act.
public struct EndAct: Message {
  public static let name = "directory.act-end/1"
  public static let senders: Set<Role> = [.gateway]
  public static let isRepeatable = true
  public typealias Reply = Acknowledgement

  public let number: Int64
  public let status: Int

  public init(number: Int64, status: Int) {
    self.number = number
    self.status = status
  }
}
