// A user's roles and quota, for work on the user's behalf while they are not connected.

public import Records

/// Fetches a user's custom roles and quota, which `Authenticate` reports for users who make requests.
public struct FetchStanding: Message {
  public static let name = "directory.standing/1"
  public static let senders: Set<Role> = [.worker, .gateway]
  public static let isRepeatable = true

  public struct Reply: Codable, Sendable {
    /// nil if the user was granted nothing.
    public let standing: UserStanding?

    public init(standing: UserStanding?) { self.standing = standing }
  }

  public let userRecordName: String
  public let container: ContainerID
  public let environment: Environment

  public init(userRecordName: String, container: ContainerID, environment: Environment) {
    self.userRecordName = userRecordName
    self.container = container
    self.environment = environment
  }
}
