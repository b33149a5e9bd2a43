// The state of an in-memory network: exchanges, the wires between them, and frames under way. One thread at a time uses
// it.

import Queues
import ServiceBus

struct InMemoryWorld {
  typealias NodeID = InMemoryNetwork.NodeID

  enum Effect: Sendable {
    case settle(PendingReply, Outcome)
    case start(IncomingRequest, BusFront, NodeID)
    case cancel(TaskHandle)
    case peersChanged(BusFront, [Peer], version: UInt64)
    case closed(BusFront)
    case event(BusFront, BusEvent)
    case finish(@Sendable () -> Void)
  }

  /// An input of a node's exchange.
  private enum Input {
    case command(Command)
    case frame(Frame, LinkID)
    case linkUp(LinkID)
    case linkDown(LinkID)
  }

  private struct Node {
    let name: String
    let endpoint: String
    let front: BusFront
    var exchange: MessageExchange
    /// Endpoints that the node keeps connected.
    var wanted: Set<String> = []
    var isPaused = false
    /// Inputs that arrived during the pause.
    var held: [Input] = []
  }

  private struct Wire {
    let caller: NodeID
    let bound: NodeID
    func other(than node: NodeID) -> NodeID { node == caller ? bound : caller }
  }

  private struct Pair: Hashable {
    let names: Set<String>
    init(_ a: String, _ b: String) { names = [a, b] }
  }

  var now: Int64 = 0
  var lastIncarnation: UInt64 = 0
  private var lastNode = 0
  private var lastLink: UInt64 = 0
  private var nodes: [NodeID: Node] = [:]
  private var bound: [String: NodeID] = [:]
  private var wires: [LinkID: Wire] = [:]
  /// Interrupted pairs of processes; true: silently.
  private var cuts: [Pair: Bool] = [:]
  private var inputs = FIFO<(NodeID, Input)>()
  private var effects: [Effect] = []

  mutating func takeEffects() -> [Effect] {
    defer { effects.removeAll(keepingCapacity: true) }
    return effects
  }

  // MARK: Nodes and wires

  mutating func join(_ peer: Peer, _ front: BusFront) -> NodeID {
    if let old = bound[peer.endpoint] { remove(old) }
    lastNode += 1
    lastIncarnation = max(lastIncarnation, peer.incarnation)
    let id = NodeID(number: lastNode)
    let exchange = MessageExchange(
      peer: peer, served: front.handlers.served, configuration: front.configuration, now: now)
    nodes[id] = Node(name: peer.name, endpoint: peer.endpoint, front: front, exchange: exchange)
    bound[peer.endpoint] = id
    for caller in nodes.keys.sorted() where nodes[caller]?.wanted.contains(peer.endpoint) == true {
      plug(caller, peer.endpoint)
    }
    return id
  }

  mutating func remove(_ id: NodeID) {
    guard var node = nodes.removeValue(forKey: id) else { return }
    if bound[node.endpoint] == id { bound[node.endpoint] = nil }
    // The node says no goodbye: it has no wires any more.
    for (link, wire) in wires.sorted(by: { $0.key < $1.key }) where wire.caller == id || wire.bound == id {
      unplug(link, wire)
    }
    for input in node.held { refuse(input) }
    node.exchange.end()
    perform(node.exchange.takeActions(), of: id, node.front)
    effects.append(.closed(node.front))
  }

  private mutating func plug(_ caller: NodeID, _ endpoint: String) {
    guard let target = bound[endpoint], target != caller, let from = nodes[caller]?.name, let to = nodes[target]?.name,
      cuts[Pair(from, to)] == nil,
      !wires.values.contains(where: { $0.caller == caller && $0.bound == target })
    else { return }
    lastLink += 1
    let link = LinkID(number: lastLink)
    wires[link] = Wire(caller: caller, bound: target)
    inputs.append((caller, .linkUp(link)))
  }

  private mutating func unplug(_ link: LinkID, _ wire: Wire) {
    wires[link] = nil
    for end in [wire.caller, wire.bound] where nodes[end] != nil { inputs.append((end, .linkDown(link))) }
  }

  // MARK: Commands and frames

  mutating func post(_ command: Command, from id: NodeID) -> Bool {
    guard nodes[id] != nil else { return false }
    inputs.append((id, .command(command)))
    return true
  }

  /// Delivers inputs, and those that follow from them, until none are left.
  mutating func deliver() {
    while let (id, input) = inputs.popFirst() {
      guard nodes[id] != nil else {
        refuse(input)
        continue
      }
      if nodes[id]?.isPaused == true { nodes[id]?.held.append(input) } else { feed(input, to: id) }
    }
  }

  /// Refuses a command that raced with the end of its bus.
  private mutating func refuse(_ input: Input) {
    guard case .command(let command) = input else { return }
    switch command {
    case .call(let request):
      effects.append(.settle(request.reply, .failure(BusError(.unreachable, "the bus is closed"))))
    case .drain(_, let done): effects.append(.finish(done))
    case .statistics(let answer): effects.append(.finish { answer(BusStatistics()) })
    default: break
    }
  }

  private mutating func feed(_ input: Input, to id: NodeID) {
    nodes[id]?.exchange.now = now
    switch input {
    case .command(.connect(let connection)):
      nodes[id]?.wanted.insert(connection.endpoint)
      plug(id, connection.endpoint)
    case .command(.disconnect(let endpoint)):
      nodes[id]?.wanted.remove(endpoint)
      for (link, wire) in wires.sorted(by: { $0.key < $1.key })
      where wire.caller == id && nodes[wire.bound]?.endpoint == endpoint { unplug(link, wire) }
    case .command(.statistics(let answer)):
      let current = nodes[id]?.exchange.currentStatistics ?? BusStatistics()
      effects.append(.finish { answer(current) })
    case .command(let command): nodes[id]?.exchange.obey(command)
    case .frame(let frame, let link): nodes[id]?.exchange.received(frame, on: link)
    case .linkUp(let link): nodes[id]?.exchange.linkUp(link)
    case .linkDown(let link): nodes[id]?.exchange.linkDown(link)
    }
    performActions(of: id)
  }

  private mutating func performActions(of id: NodeID) {
    guard let actions = nodes[id]?.exchange.takeActions(), let front = nodes[id]?.front else { return }
    perform(actions, of: id, front)
  }

  private mutating func perform(_ actions: [MessageExchange.Action], of id: NodeID, _ front: BusFront) {
    for action in actions {
      switch action {
      case .send(let frame, let link): transmit(frame, link, from: id)
      // Wires do not die unseen: the end of a silent cut replaces them.
      case .renew: break
      case .settle(let reply, let outcome): effects.append(.settle(reply, outcome))
      case .start(let request): effects.append(.start(request, front, id))
      case .cancel(let handle): effects.append(.cancel(handle))
      case .peersChanged(let peers, let version): effects.append(.peersChanged(front, peers, version: version))
      case .event(let event): effects.append(.event(front, event))
      case .finish(let done): effects.append(.finish(done))
      }
    }
  }

  private mutating func transmit(_ frame: Frame, _ link: LinkID, from id: NodeID) {
    guard let wire = wires[link] else { return }
    let other = wire.other(than: id)
    guard let from = nodes[id]?.name, let to = nodes[other]?.name, cuts[Pair(from, to)] == nil else { return }
    inputs.append((other, .frame(frame, link)))
  }

  mutating func advance(to time: Int64) {
    now = max(now, time)
    // Only nodes that are due: running networks come here every few milliseconds, a hundred of them at once in tests.
    let due = nodes.filter { !$0.value.isPaused && $0.value.exchange.nextTick <= now }.keys.sorted()
    for id in due {
      nodes[id]?.exchange.tick(now: now)
      performActions(of: id)
    }
    deliver()
  }

  // MARK: Faults

  private func ids(of name: String) -> [NodeID] {
    nodes.filter { $0.value.name == name }.keys.sorted()
  }

  mutating func cut(_ a: String, _ b: String, isSilent: Bool) {
    cuts[Pair(a, b)] = isSilent
    if !isSilent { unplugAll(Pair(a, b)) }
  }

  mutating func mend(_ a: String, _ b: String) {
    // After a silent cut each side makes another connection, as TCP does.
    if cuts.removeValue(forKey: Pair(a, b)) == true { unplugAll(Pair(a, b)) }
    for id in ids(of: a) + ids(of: b) {
      for endpoint in (nodes[id]?.wanted ?? []).sorted() { plug(id, endpoint) }
    }
  }

  private mutating func unplugAll(_ pair: Pair) {
    for (link, wire) in wires.sorted(by: { $0.key < $1.key }) {
      if let from = nodes[wire.caller]?.name, let to = nodes[wire.bound]?.name, Pair(from, to) == pair {
        unplug(link, wire)
      }
    }
  }

  mutating func pause(_ name: String) {
    for id in ids(of: name) { nodes[id]?.isPaused = true }
  }

  mutating func resume(_ name: String) {
    for id in ids(of: name) {
      nodes[id]?.isPaused = false
      let held = nodes[id]?.held ?? []
      nodes[id]?.held = []
      for input in held { inputs.append((id, input)) }
    }
  }

  mutating func kill(_ name: String) {
    for id in ids(of: name) { remove(id) }
  }
}
