// What gateways tell notifiers of web couriers, and notifiers one another: a courier's queue exists at every notifier.

public import Records

/// Makes a courier's queue before its first poll, and adds a client and a container to it. Without one the first poll makes the queue.
public struct OpenCourier: Message {
  public static let name = "courier.open/1"
  public static let senders: Set<Role> = [.gateway]
  public static let isRepeatable = true

  public struct Reply: Codable, Sendable {
    /// False: the user has as many couriers as he may.
    public let isOpen: Bool

    public init(isOpen: Bool) { self.isOpen = isOpen }
  }

  /// `CourierToken`'s text; it names the user.
  public let courier: String
  /// What notifications it also gets: the token's own container, or another one that a client registered it with.
  public let container: ContainerID
  public let environment: Environment
  /// A client that polls it, and so is not told of its own changes by it.
  public let clientID: String
  /// `Authenticate.Reply.grant` of who registered it with this container: it hears of it as long as that holds. nil: of the token's own.
  public let grant: String?

  public init(courier: String, container: ContainerID, environment: Environment, clientID: String, grant: String? = nil) {
    self.courier = courier
    self.container = container
    self.environment = environment
    self.clientID = clientID
    self.grant = grant
  }
}

/// Couriers' notifications that one notifier delivered, so that another does not deliver them again.
public struct NotificationsDelivered: Message {
  public static let name = "courier.delivered/1"
  public static let senders: Set<Role> = [.notifier]
  public static let isRepeatable = true
  public typealias Reply = Acknowledgement

  public struct Delivery: Hashable, Sendable, Codable {
    /// `CourierToken`'s text.
    public let courier: String
    /// What the notification merges by, as notifiers write it.
    public let key: String
    /// That one and earlier ones of the key.
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
