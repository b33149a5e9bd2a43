// The messages of gateways and notifiers about push services and the devices that they wake.

import ServiceBus
import ServiceKit

extension ShareService {
  func registerPush(in handlers: inout BusHandlers) {
    let (directory, log) = (directory, log)
    handlers.on(RegisterForPush.self) { message, _, _ in
      Answer(try await Self.answering(log) { try await directory.registerForPush(message) })
    }
    handlers.on(UnregisterFromPush.self) { message, _, _ in
      try await Self.answering(log) { try await directory.unregisterFromPush(message) }
      return Answer(Acknowledgement())
    }
    handlers.on(FetchApplicationServerKey.self) { message, _, _ in
      Answer(
        FetchApplicationServerKey.Reply(
          key: try await Self.answering(log) { try await directory.applicationServerKey(of: message.container) }))
    }
    handlers.on(FetchPushServices.self) { _, _, _ in
      let rows = try await Self.answering(log) { try await directory.pushServices() }
      return Answer(FetchPushServices.Reply(services: rows.map(\.entry)))
    }
    handlers.on(FetchPushRegistrations.self) { message, _, _ in
      Answer(
        try await Self.answering(log) {
          try await directory.pushRegistrations(after: message.after, of: message.incarnation)
        })
    }
    handlers.on(EndPushRegistrations.self) { message, _, _ in
      try await Self.answering(log) { try await directory.endPushRegistrations(message) }
      return Answer(Acknowledgement())
    }
  }
}
