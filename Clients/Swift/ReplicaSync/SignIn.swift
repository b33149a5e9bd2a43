// Sign-in by the server's page: a program without a scheme of its own hears of it on a port of this machine.

import MirrorWire
package import ReplicaStore

extension Account {
  private struct Refusal: Decodable { let redirectURL: String? }

  /// Opens the sign-in page, and waits until it calls back (RFC 8252). The API token must have the callback URL
  /// `http://127.0.0.1/done`.
  /// - Parameters:
  ///   - container: the container of the API token.
  ///   - page: shows an address in a browser.
  /// - Returns: the user's record name.
  package func signIn(
    container: String, environment: String, transport: any Transport, timeout: Duration = .seconds(900),
    open page: @Sendable (_ address: String) async throws -> Void
  ) async throws(StoreError) -> String {
    let path = "\(server)/database/1/\(ObjectPlane.encoded(container))/\(environment)/private/users/caller"
    do {
      let refused = try await transport.send(TransportRequest("GET", "\(path)?ckAPIToken=\(apiToken)"))
      guard refused.status == 421, let address = try Refusal(json: refused.body).redirectURL else {
        throw SyncFailure.server(ServerError(refused))
      }
      let listener = try LoopbackListener()
      let pageAddress = "\(address)&callbackURL=\(ObjectPlane.encoded(listener.callback))"
      try await checkCallback(pageAddress, transport)
      try await page(pageAddress)
      let query = try await listener.query(timeout: timeout)
      guard let token = query["ckWebAuthToken"] else { throw StoreError.signedOut }
      let headers = [(name: "Authorization", value: "Bearer \(token)")]
      let answer = try await transport.send(TransportRequest("GET", path, headers: headers))
      guard answer.status == 200 else { throw SyncFailure.server(ServerError(answer)) }
      let user = try CallerAnswer(json: answer.body).userRecordName
      try keep(answer["X-Apple-CloudKit-Web-Auth-Token"] ?? token, of: user)
      return user
    } catch let error as StoreError {
      throw error
    } catch let failure as SyncFailure {
      throw StoreError(failure)
    } catch let error as TransportError {
      throw StoreError(.transport(error.reason))
    } catch {
      throw .damaged("\(error)")
    }
  }

  /// - Throws: `invalid` if the page refuses the callback, which the browser would say to the person alone.
  private func checkCallback(_ page: String, _ transport: any Transport) async throws(StoreError) {
    // Dropped because a browser may reach what the app does not.
    guard let answer = try? await transport.send(TransportRequest("GET", page)), answer.status == 400 else { return }
    throw .invalid(
      "the API token has no callback for programs (aquifer token create --callback-url http://127.0.0.1/done makes "
        + "one), or the server is of a release before this client's")
  }
}
