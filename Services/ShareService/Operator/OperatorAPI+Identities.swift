// Providers of identities and invitations over HTTP.

import Crypto
import JSON
import Records
import ServiceBus

extension OperatorAPI {
  /// `GET` (with `?container=` those of one container), `POST` with the members of `ProviderObject`, `DELETE /{name}`,
  /// `PUT /{name}/icon` with a picture, or with nothing to take it away.
  func identities(_ request: Request) async throws -> OperatorAnswer {
    switch (request.method, request.rest.count) {
    case ("GET", 0):
      let container = try request.query["container"].map { name throws(RecordError) in try Self.container(name) }
      return OperatorAnswer(list: "identities", try await directory.identityProviders(of: container)) { row, writer in
        writer.member("name", row.entry.name)
        writer.member("displayName", row.entry.displayName)
        if let container = row.container { writer.member("container", container.rawValue) }
        writer.member("issuer", row.entry.issuer)
        writer.member("clientID", row.entry.clientID)
        writer.key("nativeClientIDs")
        writer.beginArray()
        for client in row.entry.nativeClientIDs { writer.string(client) }
        writer.endArray()
        writer.member("signUp", row.signUp.rawValue)
        if let icon = row.entry.icon { writer.member("icon", icon.kind.rawValue) }
        writer.member("created", row.created)
      }
    case ("POST", 0):
      let (entry, container, signUp) = try ProviderObject(request.body).provider()
      try await directory.addIdentityProvider(entry, of: container, signUp: signUp)
      await publish(DirectoryChanged(credentials: true, schemas: []))
      return OperatorAnswer { writer in
        writer.member("name", entry.name)
        writer.member("returnPath", "/signin/return/\(entry.name)")
        writer.member("logoutPath", "/signin/logout/\(entry.name)")
      }
    case ("PUT", 2) where request.rest[1] == "icon":
      let icon: ProviderIcon? = request.body.isEmpty ? nil : try ProviderIcon(checking: request.body)
      try await directory.setIcon(icon, ofProvider: request.rest[0])
      await publish(DirectoryChanged(credentials: true, schemas: []))
      return OperatorAnswer { $0.member("icon", icon?.kind.rawValue ?? "none") }
    case ("DELETE", 1):
      try await directory.removeIdentityProvider(request.rest[0])
      await publish(DirectoryChanged(credentials: true, schemas: []))
      return OperatorAnswer { $0.member("removed", true) }
    default: throw Self.noSuchCall(request)
    }
  }

  /// `GET`, `POST {"email"}`, `DELETE /{email}`.
  func invitations(_ request: Request) async throws -> OperatorAnswer {
    switch (request.method, request.rest.count) {
    case ("GET", 0):
      return OperatorAnswer(list: "invitations", try await directory.invitations()) { row, writer in
        writer.member("email", row.address)
        writer.member("created", row.created)
      }
    case ("POST", 0):
      guard let address = try Self.emailAddress(try RequestObject(request.body, keys: "email")) else {
        throw RecordError(.badRequest, "'email' is missing")
      }
      try await directory.invite(address)
      return OperatorAnswer { $0.member("email", address) }
    case ("DELETE", 1):
      try await directory.withdrawInvitation(request.rest[0])
      return OperatorAnswer { $0.member("withdrawn", true) }
    default: throw Self.noSuchCall(request)
    }
  }
}

/// A provider as an operator describes it.
private struct ProviderObject {
  private let object: RequestObject

  private static let textByteLimit = 2048
  private static let listLimit = 20

  init(_ body: [UInt8]) throws(RecordError) {
    object = try RequestObject(
      body, keys: "name", "preset", "displayName", "container", "issuer", "clientID", "clientSecret", "teamID", "keyID",
      "privateKey", "nativeClientIDs", "scopes", "signUp")
  }

  func provider() throws(RecordError) -> (IdentityProviderEntry, container: ContainerID?, SignUpRule) {
    let preset = try preset()
    let name = try name()
    let displayName = try object.text("displayName", limit: AppText.nameByteLimit) ?? preset?.displayName ?? name
    guard AppText.isName(displayName) else { throw RecordError(.badRequest, "'displayName' \(AppText.nameRule)") }
    let scopes = try object.texts("scopes", limit: Self.listLimit)
    let entry = IdentityProviderEntry(
      name: name, displayName: displayName, issuer: try issuer(preset),
      clientID: try object.required("clientID", limit: Self.textByteLimit), secret: try secret(),
      nativeClientIDs: try object.texts("nativeClientIDs", limit: Self.listLimit),
      scopes: scopes.isEmpty ? preset?.scopes ?? ["openid", "email", "profile"] : scopes,
      answersByForm: preset == .apple)
    guard preset == .apple || entry.scopes.contains("openid") else {
      throw RecordError(.badRequest, "'scopes' must contain 'openid'")
    }
    let container = try object.text("container").map { name throws(RecordError) in try OperatorAPI.container(name) }
    return (entry, container, try signUp())
  }

  private func name() throws(RecordError) -> String {
    let name = try object.required("name")
    guard PlainName.isName(name) else { throw RecordError(.badRequest, "'name' \(PlainName.rule)") }
    return name
  }

  private func preset() throws(RecordError) -> ProviderPreset? {
    guard let text = try object.text("preset") else { return nil }
    guard let preset = ProviderPreset(rawValue: text) else {
      let names = ProviderPreset.allCases.map(\.rawValue).joined(separator: " and ")
      throw RecordError(.badRequest, "There is no preset '\(text)': the presets are \(names)")
    }
    return preset
  }

  private func issuer(_ preset: ProviderPreset?) throws(RecordError) -> String {
    guard let issuer = try object.text("issuer", limit: Self.textByteLimit) ?? preset?.issuer else {
      throw RecordError(.badRequest, "'issuer' is missing")
    }
    guard WebAddress.isIssuer(issuer) else { throw RecordError(.badRequest, "'issuer' \(WebAddress.issuerRule)") }
    return issuer
  }

  private func secret() throws(RecordError) -> IdentityProviderEntry.Secret {
    guard object.has("privateKey") else {
      return try object.text("clientSecret", limit: Self.textByteLimit).map { .text($0) } ?? .none
    }
    let key = try object.required("privateKey", limit: 4096, allowsLines: true)
    guard P256PrivateKey(pem: key) != nil else {
      throw RecordError(.badRequest, "'privateKey' is not a P-256 private key, as a .p8 file has it")
    }
    return .apple(teamID: try object.required("teamID"), keyID: try object.required("keyID"), privateKey: key)
  }

  private func signUp() throws(RecordError) -> SignUpRule {
    let text = try object.text("signUp") ?? SignUpRule.invited.rawValue
    guard let rule = SignUpRule(rawValue: text) else {
      throw RecordError(.badRequest, "'signUp' must be open, invited or closed, not '\(text)'")
    }
    return rule
  }
}

/// Providers whose settings are known.
enum ProviderPreset: String, CaseIterable {
  case apple, google

  var displayName: String {
    switch self {
    case .apple: "Apple"
    case .google: "Google"
    }
  }

  var issuer: String {
    switch self {
    case .apple: "https://appleid.apple.com"
    case .google: "https://accounts.google.com"
    }
  }

  /// Apple knows no `openid` and no `profile`.
  var scopes: [String] {
    switch self {
    case .apple: ["name", "email"]
    case .google: ["openid", "email", "profile"]
    }
  }
}
