// Push services of vendors, and the devices that registered with them to be woken.

public import Records

/// A service that wakes sleeping devices, as the operator set it up.
public struct PushServiceEntry: Hashable, Codable, Sendable {
  public enum Kind: Hashable, Codable, Sendable {
    /// Apple's, for one app.
    /// - Parameters:
    ///   - privateKey: of the developer portal, in PEM; it signs the provider's tokens.
    ///   - topic: the app's bundle identifier.
    ///   - url: takes the place of Apple's addresses for both environments.
    case apns(teamID: String, keyID: String, privateKey: String, topic: String, url: String?)
    /// Web Push (RFC 8030) to the service that each browser or distributor names.
    /// - Parameters:
    ///   - contact: a `mailto:` or `https:` address for the services' operators.
    ///   - privateKey: 32 bytes, the scalar of the key that identifies this installation (RFC 8292).
    case webPush(contact: String, privateKey: [UInt8])
    /// Signed calls of apps' servers.
    case webhook
  }

  /// The operator's name for it.
  public let name: String
  /// nil: all containers that have none of the kind of their own.
  public let container: ContainerID?
  public let kind: Kind

  public init(name: String, container: ContainerID?, kind: Kind) {
    self.name = name
    self.container = container
    self.kind = kind
  }

  public func serves(_ address: PushAddress, of container: ContainerID) -> Bool {
    guard self.container == nil || self.container == container else { return false }
    return switch (kind, address) {
    case (.apns, .apns), (.webPush, .web), (.webhook, .webhook): true
    default: false
    }
  }
}

extension [PushServiceEntry] {
  /// The service of a container that serves an address: its own, or that of all containers.
  public func service(for address: PushAddress, of container: ContainerID) -> PushServiceEntry? {
    let serving = filter { $0.serves(address, of: container) }
    return serving.first { $0.container != nil } ?? serving.first
  }
}

/// The place where a device is woken.
public enum PushAddress: Hashable, Codable, Sendable {
  /// - Parameters:
  ///   - deviceToken: in lower-case hex.
  ///   - isSandbox: true for apps that are signed for development.
  case apns(deviceToken: String, isSandbox: Bool)
  /// - Parameters:
  ///   - endpoint: an https URL.
  ///   - receiverKey: an uncompressed point of P-256, 65 bytes.
  ///   - secret: 16 bytes.
  case web(endpoint: String, receiverKey: [UInt8], secret: [UInt8])
  /// - Parameters:
  ///   - url: an https URL.
  ///   - secret: signs the calls.
  case webhook(url: String, secret: String)

  /// The part by which a later registration of the same device replaces this one.
  public var target: String {
    switch self {
    case .apns(let token, _): "apns:" + token
    case .web(let endpoint, _, _): "web:" + endpoint
    case .webhook(let url, _): "webhook:" + url
    }
  }

  /// A target without secrets, for operators: the kind, and the host or the beginning of the token.
  public var label: String {
    switch self {
    case .apns(let token, let isSandbox): "apns\(isSandbox ? " sandbox" : "") \(token.prefix(8))…"
    case .web(let endpoint, _, _): "web \(Self.host(of: endpoint))"
    case .webhook(let url, _): "webhook \(Self.host(of: url))"
    }
  }

  /// The host and the port of an absolute URL.
  public static func host(of url: String) -> String {
    guard let mark = url.firstRange(of: "://") else { return "" }
    return String(url[mark.upperBound...].prefix { $0 != "/" && $0 != "?" })
  }
}

/// A device that is woken for the changes of its user.
public struct PushRegistration: Hashable, Codable, Sendable {
  public let id: Int64
  /// Rises with each change of any registration.
  public let revision: Int64
  public let device: RegisterForPush.Device
  public let address: PushAddress
  /// True for a device that hears of each zone that changes, false for one that hears of its user's subscriptions.
  public let hearsEveryZone: Bool

  public init(
    id: Int64, revision: Int64, device: RegisterForPush.Device, address: PushAddress, hearsEveryZone: Bool
  ) {
    self.id = id
    self.revision = revision
    self.device = device
    self.address = address
    self.hearsEveryZone = hearsEveryZone
  }
}

/// Registers a device, or renews its registration, durably.
public struct RegisterForPush: Message {
  public static let name = "push.register/1"
  public static let senders: Set<Role> = [.gateway]
  public static let isRepeatable = true

  public struct Reply: Codable, Sendable {
    /// False if no push service of the container serves the address; nothing is registered then.
    public let isServed: Bool
    /// False if the same registration was there already.
    public let isChanged: Bool

    public init(isServed: Bool, isChanged: Bool) {
      self.isServed = isServed
      self.isChanged = isChanged
    }
  }

  /// A client of a user, with the credentials that it came by.
  public struct Device: Hashable, Codable, Sendable {
    public let container: ContainerID
    public let environment: Environment
    public let userRecordName: String
    /// The client is not woken for its own changes.
    public let clientID: String
    /// `Authenticate.Reply.grant`: the registration ends with it.
    public let grant: String

    public init(
      container: ContainerID, environment: Environment, userRecordName: String, clientID: String, grant: String
    ) {
      self.container = container
      self.environment = environment
      self.userRecordName = userRecordName
      self.clientID = clientID
      self.grant = grant
    }
  }

  public let device: Device
  public let address: PushAddress
  public let hearsEveryZone: Bool

  public init(device: Device, address: PushAddress, hearsEveryZone: Bool) {
    self.device = device
    self.address = address
    self.hearsEveryZone = hearsEveryZone
  }
}

/// Ends a registration of a user; without one it changes nothing.
public struct UnregisterFromPush: Message {
  public static let name = "push.unregister/1"
  public static let senders: Set<Role> = [.gateway]
  public static let isRepeatable = true
  public typealias Reply = Acknowledgement

  public let container: ContainerID
  public let environment: Environment
  public let userRecordName: String
  /// `PushAddress.target`
  public let target: String

  public init(container: ContainerID, environment: Environment, userRecordName: String, target: String) {
    self.container = container
    self.environment = environment
    self.userRecordName = userRecordName
    self.target = target
  }
}

/// The public key by which Web Push services know the installation.
public struct FetchApplicationServerKey: Message {
  public static let name = "push.application-server-key/1"
  public static let senders: Set<Role> = [.gateway]
  public static let isRepeatable = true

  public struct Reply: Codable, Sendable {
    /// An uncompressed point of P-256, 65 bytes; nil if the container has no Web Push.
    public let key: [UInt8]?

    public init(key: [UInt8]?) { self.key = key }
  }

  public let container: ContainerID

  public init(container: ContainerID) { self.container = container }
}

/// Tells notifiers that registrations have changed. One that misses it finds the change with its next look.
public struct PushRegistrationsChanged: Message {
  public static let name = "push.changed/1"
  public static let senders: Set<Role> = [.gateway]
  public static let isRepeatable = true
  public typealias Reply = Acknowledgement

  public init() {}
}

/// All push services, with their keys.
public struct FetchPushServices: Message {
  public static let name = "push.services/1"
  public static let senders: Set<Role> = [.notifier]
  public static let isRepeatable = true

  public struct Reply: Codable, Sendable {
    public let services: [PushServiceEntry]

    public init(services: [PushServiceEntry]) { self.services = services }
  }

  public init() {}
}

/// The registrations that changed after a revision, in pages.
public struct FetchPushRegistrations: Message {
  public static let name = "push.registrations/1"
  public static let senders: Set<Role> = [.notifier]
  public static let isRepeatable = true
  public static let pageLimit = 1000

  public struct Reply: Codable, Sendable {
    public let registrations: [PushRegistration]
    /// Registrations that ended.
    public let ended: [Int64]
    /// The revision that the next page follows.
    public let revision: Int64
    /// True for the first page of all registrations, because the directory does not have all changes up to the revision
    /// that was named: it was restored from a backup, or lost its last changes.
    public let isFromStart: Bool
    public let isLast: Bool
    /// Names the revisions of this page; nil from an earlier release, and in a directory without any.
    public var incarnation: String?

    public init(
      registrations: [PushRegistration], ended: [Int64], revision: Int64, isFromStart: Bool = false, isLast: Bool,
      incarnation: String? = nil
    ) {
      self.registrations = registrations
      self.ended = ended
      self.revision = revision
      self.isFromStart = isFromStart
      self.isLast = isLast
      self.incarnation = incarnation
    }
  }

  public let after: Int64
  /// `Reply.incarnation` of that revision.
  public var incarnation: String?

  public init(after: Int64, incarnation: String? = nil) {
    self.after = after
    self.incarnation = incarnation
  }
}

/// Ends registrations that a vendor no longer knows, or whose credentials have ended.
public struct EndPushRegistrations: Message {
  public static let name = "push.end/1"
  public static let senders: Set<Role> = [.notifier]
  public static let isRepeatable = true
  public typealias Reply = Acknowledgement

  public struct Registration: Hashable, Codable, Sendable {
    public let id: Int64
    /// A registration that was renewed meanwhile stays.
    public let revision: Int64

    public init(id: Int64, revision: Int64) {
      self.id = id
      self.revision = revision
    }
  }

  public let registrations: [Registration]
  /// `FetchPushRegistrations.Reply.incarnation` of their revisions.
  public var incarnation: String?

  public init(registrations: [Registration], incarnation: String? = nil) {
    self.registrations = registrations
    self.incarnation = incarnation
  }
}
