// Where others come in: the bound socket, and who looks at their keys.

/// The ROUTER of a bus and, on a bus with keys, the ZAP handler, which is there before anybody can knock.
final class Door {
  let router: ZeroMQSocket
  let zap: ZAPHandler?
  /// Where others connect to.
  let endpoint: String

  init(_ endpoint: String, in context: UnsafeMutableRawPointer, _ configuration: BusConfiguration) throws(BusError) {
    let zap = configuration.keys == nil ? nil : try ZAPHandler(in: context)
    do throws(BusError) {
      router = try ZeroMQSocket(.router, in: context, configuration, keys: configuration.keys.map { .bound($0.own) } ?? .none, monitorName: "router")
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
