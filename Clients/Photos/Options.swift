// The command line of aquifer-photos.

/// What a telephone is started with.
struct Options {
  var device = ""
  var user = ""
  var folder = ""
  var port: UInt16 = 0
  var server = ""
  var notifier: String?
  var apiToken = ""
  var containerIdentifier = "iCloud.org.example.photos"
  var isGuest = false
  /// Addresses of the telephones that the stage shows.
  var stage: [String] = []

  static let usage = """
    usage: aquifer-photos --device NAME --user NAME --data DIR --port N --server URL --api-token TOKEN [--notifier URL]
                          [--container ID] [--guest] [--stage URL,URL,URL]

    A telephone with photos that Aquifer mirrors: a page on 127.0.0.1:N, and a replica in DIR. The web-auth token of its
    user is read from DIR/token, and kept there when the server renews it. deploy/photos starts three of them.
    """

  /// - Throws: one sentence that names the option.
  init(_ arguments: [String]) throws(Problem) {
    var rest = arguments[...]
    while let option = rest.popFirst() {
      if option == "--guest" {
        isGuest = true
        continue
      }
      guard let value = rest.popFirst() else { throw Problem(reason: "\(option) needs a value.") }
      switch option {
      case "--device": device = value
      case "--user": user = value
      case "--data": folder = value
      case "--server": server = value
      case "--notifier": notifier = value
      case "--api-token": apiToken = value
      case "--container": containerIdentifier = value
      case "--stage": stage = value.split(separator: ",").map(String.init)
      case "--port":
        guard let number = UInt16(value) else {
          throw Problem(reason: "--port is '\(value)'; it must be a number up to 65535.")
        }
        port = number
      default: throw Problem(reason: "There is no option \(option).")
      }
    }
    let required = ["--device": device, "--user": user, "--data": folder, "--server": server, "--api-token": apiToken]
    if let missing = required.filter(\.value.isEmpty).keys.min() { throw Problem(reason: "\(missing) is missing.") }
  }
}

/// Something that a person can put right, in one sentence.
struct Problem: Error {
  let reason: String
}
