// The entrance of a bus: the bound socket, and the check of keys.

/// A bus's ROUTER and, with keys, its ZAP handler, which exists before anybody can connect.
final class Door {
  let router: ZeroMQSocket
  let zap: ZAPHandler?
  /// The endpoint for others to connect to.
  let endpoint: String

  init(_ endpoint: String, in context: UnsafeMutableRawPointer, _ configuration: BusConfiguration) throws(BusError) {
    let zap = configuration.keys == nil ? nil : try ZAPHandler(in: context)
    do throws(BusError) {
      router = try ZeroMQSocket(
        .router, in: context, configuration, keys: configuration.keys.map { .bound($0.own) } ?? .none,
        monitorName: "router")
      do throws(BusError) {
        self.endpoint = try router.bind(endpoint)
      } catch {
        router.close()
        throw error
      }
    } catch {
      zap?.close()
      throw error
    }
    self.zap = zap
  }

  func close() {
    router.close()
    zap?.close()
  }
}
