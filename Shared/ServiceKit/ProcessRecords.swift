// The process's records about itself: answers for the share service, and a sample of figures each second.

internal import ServiceBus

extension ServiceProcess {
  /// Answers the share service's questions about the process itself.
  static func registerRecords(of context: ServiceContext, in handlers: inout BusHandlers) {
    handlers.on(FetchFigures.self) { message, _, _ in
      Answer(Acknowledgement(), body: context.metrics.recent.answer(message))
    }
    handlers.on(FetchLog.self) { message, _, _ in Answer(Acknowledgement(), body: context.recentLog.answer(message)) }
  }

  /// Takes a sample of the process's figures each second, until the task is cancelled.
  static func sample(_ context: ServiceContext) async {
    while !Task.isCancelled {
      await context.metrics.recent.sample(at: context.clock.now)
      // Dropped because a cancelled sleep ends the loop.
      try? await context.timing.sleep(.seconds(1))
    }
  }
}
