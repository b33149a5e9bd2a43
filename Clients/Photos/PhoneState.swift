// What a telephone's screen shows, as the page reads it.

import FoundationEssentials

/// The whole screen; sent again whenever it is different.
struct PhoneState: Encodable, Equatable {
  struct Picture: Encodable, Equatable {
    let id: String
    let caption: String
    let tags: [String]
    /// The user's own, 0 without any.
    let stars: Int
    let isMine: Bool
    let isShared: Bool
    /// An edit of it waits for the server.
    let isPending: Bool
  }

  struct EventLine: Encodable, Equatable {
    let kind: String
    let text: String
    /// HH:MM:SS, UTC.
    let time: String
    let succeeded: Bool
  }

  var device = ""
  var isGuest = false
  var isAirplane = false
  var isPinned = false
  /// Commits that a pinned view does not see.
  var generationAge = 0
  /// Saves that the server has not acknowledged.
  var pending = 0
  var idle = ""
  var isCaughtUp = false
  var photos: [Picture] = []
  /// The latest first.
  var events: [EventLine] = []

  var json: [UInt8] {
    // Dropped because texts, numbers and truth values can always be written.
    (try? JSONEncoder().encode(self)).map { [UInt8]($0) } ?? []
  }
}
