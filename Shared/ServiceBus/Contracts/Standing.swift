// What an operator gave a user, asked for what is done for him while he is not there.

public import Records

/// A user's custom roles and quota, as `Authenticate` tells them of whoever asks.
public struct FetchStanding: Message {
  public static let name = "directory.standing/1"
  public static let senders: Set<Role> = [.worker]
  public static let isRepeatable = true

  public struct Reply: Codable, Sendable {
    /// nil: nothing was given to him.
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
