// Messages about web couriers, from gateways to notifiers and between notifiers: each notifier has a courier's queue.

public import Records

/// Makes a courier's queue before its first poll, and adds a client and a container to it. Without it the first poll
/// makes the queue.
public struct OpenCourier: Message {
  public static let name = "courier.open/1"
  public static let senders: Set<Role> = [.gateway]
  public static let isRepeatable = true

  public struct Reply: Codable, Sendable {
    /// False if the user has as many couriers as the limit allows.
    public let isOpen: Bool

    public init(isOpen: Bool) { self.isOpen = isOpen }
  }

  /// The text of a `CourierToken`; it names the user.
  public let courier: String
  /// The container whose notifications the courier gets too: the token's own, or another that a client registered it
  /// with.
  public let container: ContainerID
  public let environment: Environment
  /// A client that polls the courier: it gets no notifications of its own changes through it.
  public let clientID: String
  /// `Authenticate.Reply.grant` of the user who registered the courier with this container; the courier hears of it
  /// while the grant holds. nil: the container is the token's own.
  public let grant: String?

  public init(courier: String, container: ContainerID, environment: Environment, clientID: String, grant: String? = nil)
  {
    self.courier = courier
    self.container = container
    self.environment = environment
    self.clientID = clientID
    self.grant = grant
  }
}

/// Couriers' notifications that one notifier delivered, so that the others do not deliver them again.
public struct NotificationsDelivered: Message {
  public static let name = "courier.delivered/1"
  public static let senders: Set<Role> = [.notifier]
  public static let isRepeatable = true
  public typealias Reply = Acknowledgement

  public struct Delivery: Hashable, Sendable, Codable {
    /// The text of a `CourierToken`.
    public let courier: String
    /// The key by which notifiers merge notifications.
    public let key: String
    /// The sequence number up to which the key's notifications are delivered.
    public let sequence: Int64

    public init(courier: String, key: String, sequence: Int64) {
      self.courier = courier
      self.key = key
      self.sequence = sequence
    }
  }

  public let deliveries: [Delivery]

  public init(deliveries: [Delivery]) { self.deliveries = deliveries }
}
