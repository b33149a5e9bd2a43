// One run over the real worker: a seed decides the steps of devices and others; at the end all go online and must
// agree.

import Foundation
import JSON
import MirroringWorld
import ObjectModel
import Records

/// A run's options besides editing, sending and importing.
package struct RunOptions: Sendable {
  package var stepCount = 300
  package var deviceCount = 4
  /// True: zones are shared, moved and deleted, and two other users take part.
  package var shares = true
  /// Plants a flaw in the devices, to show that it is noticed.
  package var flaw: String?
  /// True: the trace also contains each request and its answer.
  package var tells = false

  package init() {}
}

/// The result of a run.
package struct RunOutcome: Sendable {
  /// Differences and losses; empty when all replicas converged.
  package let differences: [String]
  /// One line for each step.
  package let trace: [String]
}

package final class ServerRun {
  private let seed: Int
  let shape: ModelShape
  private let options: RunOptions
  let server: Server
  let devices: [Device]
  /// Devices of participants.
  let guests: [Device]
  var shares: [RunShare] = []
  let records: RecordClient
  var ledger: Ledger
  private var trace: [String] = []
  static let owner = "_alice"

  private init(_ seed: Int, _ shape: ModelShape, _ options: RunOptions) async throws {
    self.seed = seed
    self.shape = shape
    self.options = options
    let server = try await Server(shape.model, seed: seed, listens: options.tells)
    self.server = server
    devices = ["A", "B", "C", "D", "E", "F"].prefix(options.deviceCount).map {
      Device($0, user: Self.owner, server: server, shape: shape)
    }
    records = RecordClient(user: Self.owner, server: server, shape: shape)
    ledger = Ledger(shape)
    guests =
      options.shares
      ? Self.participants.map { Device("of \($0.dropFirst())", user: $0, scope: .shared, server: server, shape: shape) }
      : []
    for device in devices + guests { device.asksForZones = options.shares }
    for device in devices { device.flaw = options.flaw.flatMap(Device.Flaw.init(rawValue:)) }
  }

  /// - Parameter steps: the numbers of the steps to do; nil: all.
  package static func outcome(
    ofSeed seed: Int, _ shape: ModelShape, _ options: RunOptions = RunOptions(), steps: [Int]? = nil
  ) async throws -> RunOutcome {
    let run = try await ServerRun(seed, shape, options)
    do {
      for step in steps ?? Array(0..<options.stepCount) { try await run.step(step) }
      let differences = try await run.differences()
      for line in run.server.overheard() { run.note(line) }
      await run.server.close()
      return RunOutcome(differences: differences, trace: run.trace)
    } catch {
      await run.server.close()
      throw error
    }
  }

  private func note(_ line: String) { trace.append(line) }

  // MARK: Steps

  private func step(_ number: Int) async throws {
    // Each step has random numbers of its own, which do not depend on other steps.
    var generator = SeededGenerator(seed: seed &* 1_000_003 &+ number &+ 1)
    for _ in 0..<4 { _ = generator.next() }
    let everybody = devices + guests
    let device = everybody[Int.random(in: 0..<everybody.count, using: &generator)]
    let own = devices[Int.random(in: 0..<devices.count, using: &generator)]
    var editor = Editor(shape, prefix: "\(device.store)\(number)")
    let before = trace.count
    let roll = Int.random(in: 0..<100, using: &generator)
    switch roll {
    case 0..<30:
      let changes = editor.changes(on: device.view, needsPlace: device.scope == .shared, &generator)
      let id = device.save(changes)
      // A participant's rights may end before the change is written.
      if device.scope == .shared { for change in changes { ledger.doubt(change.objectID) } }
      if let id { note("\(device.store) saves \(id): \(device.pending.last?.json ?? "")") }
    case 30..<50: try await send(device, &generator)
    case 50..<70: try await importPages(device, &generator)
    case 70..<73:
      try await device.purgeHistory(force: Bool.random(using: &generator))
      note("\(device.store)'s history is purged")
    case 73..<76:
      let fate = self.fate(&generator)
      try await device.reset(fate: fate)
      note("\(device.store) resets, \(fate)")
    case 76..<79:
      let spans: [Int64] = [61_000, 700_000, (Server.historyRetention + 100) * 1000]
      let span = spans.randomElement(using: &generator) ?? 0
      server.time.advance(by: span)
      note("\(span / 1000) s pass")
    case 79..<82:
      guard let body = device.sentBodies.randomElement(using: &generator) else { break }
      try await device.repeatRequest(body, &ledger)
      note("the network repeats what \(device.store) sent: \(body)")
    case 82..<87:
      note("the record client " + (try await records.edit(&editor, &ledger, &generator)))
    case 87..<89: try await kill(during: device, &generator)
    case 89:
      try await server.restart(isKilled: false)
      note("another worker takes over")
    case 90 where device.scope == .private && device.inFlightCount == 0:
      try await device.removeStore()
      note("\(device.store)'s store is removed")
    default:
      server.time.advance(by: 1000)
      if options.shares { note(try await zoneStep(own, &generator)) }
    }
    await server.settle()
    for line in server.overheard() { note(line) }
    for line in before..<trace.count { trace[line] = "\(number): \(trace[line])" }
  }

  private func fate(_ generator: inout SeededGenerator) -> Device.Fate {
    [.answered, .answered, .answered, .answerLost, .requestLost].randomElement(using: &generator) ?? .answered
  }

  private func send(_ device: Device, _ generator: inout SeededGenerator) async throws {
    guard !device.pending.isEmpty else { return }
    let fate = fate(&generator)
    let first = device.pending[0].transactionID
    let refusals = device.refusals.count
    let isAnswered = try await device.send(
      limit: Int.random(in: 1...4, using: &generator), fate: fate, waits: Int.random(in: 0..<4, using: &generator) == 0,
      &ledger)
    note(
      """
      \(device.store) sends from \(first) on, \(fate)\(isAnswered ? "" : ", nobody knows what became of it") \
      \(device.refusals.dropFirst(refusals).joined(separator: "; "))
      """
    )
    // Repeated at once, or much later.
    if fate != .answered, Bool.random(using: &generator) {
      try await device.send(&ledger)
      note("\(device.store) sends it again")
    }
  }

  private func importPages(_ device: Device, _ generator: inout SeededGenerator) async throws {
    if device.inFlightCount > 0 { try await device.send(&ledger) }
    for _ in 0..<Int.random(in: 1...4, using: &generator) {
      let fate: Device.PageFate =
        [.kept, .kept, .kept, .kept, .lost, .tokenLost].randomElement(using: &generator) ?? .kept
      let limit = Int.random(in: 1...12, using: &generator)
      let isMore = try await device.importPage(limit: limit, fate: fate)
      note("\(device.store) imports a page of \(limit), \(fate)")
      if !isMore { break }
    }
  }

  /// Kills the process at some commit of a request, or between two.
  private func kill(during device: Device, _ generator: inout SeededGenerator) async throws {
    let commits = Int.random(in: 0..<4, using: &generator)
    server.condemn(after: commits)
    if Bool.random(using: &generator) { try await device.send(&ledger) } else { try await device.importPage() }
    try await server.restart(isKilled: true)
    note("the worker is killed \(commits) commits into a request of \(device.store)")
  }

  // MARK: The end

  private func differences() async throws -> [String] {
    if server.isDead { try await server.restart(isKilled: true) }
    _ = try await records.mendAll(&ledger)
    var problems = try await bringOnline(devices + guests)
    while problems.isEmpty, try await records.mendAll(&ledger) { problems += try await bringOnline(devices + guests) }
    let fresh = Device("fresh", user: Self.owner, server: server, shape: shape)
    problems += try await bringOnline([fresh])
    let (picture, faults) = try await records.picture()
    problems += faults.map { "records: \($0)" }
    let reference = fresh.view.picture
    for device in devices {
      let heldBack = try await device.heldBack()
      problems += device.view.picture.without(relationshipsOf: heldBack, acrossZonesOf: reference)
        .differences(from: reference, comparesZones: false).map {
          "\(device.store) (here) and a new device (there): \($0)"
        }
    }
    problems += recordDifferences(picture, reference).map { "records (here) and a new device (there): \($0)" }
    problems += ledger.problems(in: reference)
    problems += try await guestDifferences(reference)
    problems += try await echoes()
    return problems
  }

  /// Fields that a record lacks are not compared, because devices use the model's default.
  private func recordDifferences(_ picture: Replica.Picture, _ reference: Replica.Picture) -> [String] {
    var reference = reference
    for (id, object) in reference.objects {
      for attribute in shape.attributes(of: object.entity)
      where attribute.defaultValue != nil && picture.objects[id]?.attributes[attribute.name] == nil {
        reference.objects[id]?.attributes[attribute.name] = nil
      }
    }
    return picture.differences(from: reference)
  }

  /// All devices send and import until none has anything left to send or to import.
  func bringOnline(_ devices: [Device]) async throws -> [String] {
    for round in 0..<12 {
      var isQuiet = true
      for device in devices {
        var tries = 0
        while !device.pending.isEmpty || device.inFlightCount > 0, tries < 200 {
          if device.isBeginningAnew, device.inFlightCount == 0 { try await device.importPage() }
          try await device.send(limit: 50, &ledger)
          isQuiet = false
          tries += 1
          if tries % 20 == 0 { server.time.advance(by: 61_000) }
        }
        if tries == 200 {
          return ["\(device.store) can't send what it saved, \(device.trouble): \(device.pending[0].json)"]
        }
        var pages = 0
        let heard = device.heardCount
        repeat {
          _ = try await device.importPage()
          pages += 1
          if pages % 20 == 0 { server.time.advance(by: 61_000) }
        } while !device.isCaughtUp && pages < 200
        if pages == 200 { return ["\(device.store) can't import to the end: \(device.trouble)"] }
        if device.heardCount != heard { isQuiet = false }
      }
      await server.settle()
      if isQuiet, round > 0 { return [] }
    }
    return ["there is always something new to hear"]
  }

  private func echoes() async throws -> [String] {
    var problems: [String] = []
    for _ in 0..<3 {
      for device in devices + guests {
        problems += try await device.echoes().map { "\(device.store) hears though nobody said anything: \($0)" }
      }
      await server.settle()
    }
    return problems
  }
}
