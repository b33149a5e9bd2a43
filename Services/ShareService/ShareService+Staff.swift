// The gateways' messages about the staff: sessions of the console, and the audit of calls that workers answer.

import ServiceBus

extension ShareService {
  func registerStaff(in handlers: inout BusHandlers) {
    let (directory, announcer, log) = (directory, announcer, log)
    handlers.on(OpenConsole.self) { [signIns] message, _, _ in
      Answer(try await Self.answering(log) { try await signIns.open(message) })
    }
    handlers.on(CloseConsole.self) { message, _, _ in
      if try await Self.answering(log, { try await directory.closeConsole(message.token) }) {
        await announcer.announce(DirectoryChanged(credentials: true, schemas: []))
      }
      return Answer(Acknowledgement())
    }
    handlers.on(NoteAct.self) { message, _, _ in
      Answer(NoteAct.Reply(number: try await Self.answering(log) { try await directory.begin(message.act) }))
    }
    handlers.on(EndAct.self) { message, _, _ in
      try await Self.answering(log) { try await directory.end(act: message.number, status: message.status) }
      return Answer(Acknowledgement())
    }
  }
}
