// Holds a certificate chain and a private key as GnuTLS objects.

internal import CMicroHTTPD
internal import Synchronization

/// Immutable, so many connections may use it at once; each of them retains it.
///
/// Unchecked because only `init` writes the pointers, and GnuTLS signs with a key in memory from several threads
/// safely.
final class TLSCredentials: @unchecked Sendable {
  private let chain: UnsafeMutablePointer<gnutls_pcert_st>
  private let count: UInt32
  private let key: gnutls_privkey_t
  /// The expiry of the server's own certificate in seconds since 1970.
  let expiry: Int64

  private static let chainLimit = 16

  /// - Parameters:
  ///   - chain: PEM with the server's own certificate and others in any order.
  ///   - key: PEM.
  ///   - paths: the paths of certificate and key, for the text of a problem.
  ///   - now: seconds since 1970.
  init(chain pem: [UInt8], key keyPEM: [UInt8], paths: (certificate: String, key: String), now: Int64)
    throws(TLSCertificate.Problem)
  {
    let chain = UnsafeMutablePointer<gnutls_pcert_st>.allocate(capacity: Self.chainLimit)
    var count = UInt32(Self.chainLimit)
    let flags = GNUTLS_X509_CRT_LIST_IMPORT_FAIL_IF_EXCEED.rawValue | GNUTLS_X509_CRT_LIST_SORT.rawValue
    let chainCode = Self.withDatum(pem) {
      gnutls_pcert_list_import_x509_raw(chain, &count, &$0, GNUTLS_X509_FMT_PEM, flags)
    }
    guard chainCode == GNUTLS_E_SUCCESS, count > 0 else {
      chain.deallocate()
      throw Self.problem(
        "The TLS certificate file \(paths.certificate) holds no certificate chain in PEM form", chainCode)
    }
    var key: gnutls_privkey_t?
    var keyCode = gnutls_privkey_init(&key)
    if keyCode == GNUTLS_E_SUCCESS {
      keyCode = Self.withDatum(keyPEM) { gnutls_privkey_import_x509_raw(key, &$0, GNUTLS_X509_FMT_PEM, nil, 0) }
    }
    guard keyCode == GNUTLS_E_SUCCESS, let key else {
      gnutls_privkey_deinit(key)
      Self.free(chain, count)
      throw Self.problem("The TLS key file \(paths.key) holds no private key in PEM form without a password", keyCode)
    }
    do throws(TLSCertificate.Problem) {
      expiry = try Self.checkedExpiry(chain, key, paths, now)
    } catch {
      gnutls_privkey_deinit(key)
      Self.free(chain, count)
      throw error
    }
    self.chain = chain
    self.count = count
    self.key = key
  }

  deinit {
    gnutls_privkey_deinit(key)
    Self.free(chain, count)
  }

  /// Hands the chain and the key to a handshake.
  func give(
    _ chain: UnsafeMutablePointer<UnsafeMutablePointer<gnutls_pcert_st>?>, _ count: UnsafeMutablePointer<UInt32>,
    _ key: UnsafeMutablePointer<gnutls_privkey_t?>
  ) {
    chain.pointee = self.chain
    count.pointee = self.count
    key.pointee = self.key
  }

  /// Checks that the key belongs to the first certificate of the chain, and that the certificate is valid now.
  /// - Returns: the certificate's expiry in seconds since 1970.
  private static func checkedExpiry(
    _ chain: UnsafeMutablePointer<gnutls_pcert_st>, _ key: gnutls_privkey_t,
    _ paths: (certificate: String, key: String), _ now: Int64
  ) throws(TLSCertificate.Problem) -> Int64 {
    var own: gnutls_pubkey_t?
    defer { gnutls_pubkey_deinit(own) }
    guard gnutls_pubkey_init(&own) == GNUTLS_E_SUCCESS,
      gnutls_pubkey_import_privkey(own, key, 0, 0) == GNUTLS_E_SUCCESS,
      let ofKey = keyID(own), let ofCertificate = keyID(chain.pointee.pubkey)
    else { throw TLSCertificate.Problem(description: "The TLS key file \(paths.key) holds a key of an unknown kind.") }
    guard ofKey == ofCertificate else {
      throw TLSCertificate.Problem(
        description: "The TLS key file \(paths.key) does not hold the key of the certificate in \(paths.certificate).")
    }
    var certificate: gnutls_x509_crt_t?
    guard gnutls_pcert_export_x509(chain, &certificate) == GNUTLS_E_SUCCESS, let certificate else {
      throw TLSCertificate.Problem(description: "The TLS certificate file \(paths.certificate) can't be understood.")
    }
    defer { gnutls_x509_crt_deinit(certificate) }
    let expiry = Int64(gnutls_x509_crt_get_expiration_time(certificate))
    if expiry <= now {
      throw TLSCertificate.Problem(description: "The TLS certificate in \(paths.certificate) has expired.")
    }
    if Int64(gnutls_x509_crt_get_activation_time(certificate)) > now {
      throw TLSCertificate.Problem(
        description: "The TLS certificate in \(paths.certificate) is not valid yet; check this machine's clock.")
    }
    return expiry
  }

  private static func keyID(_ key: gnutls_pubkey_t?) -> [UInt8]? {
    var bytes = [UInt8](repeating: 0, count: 64)
    var count = bytes.count
    guard gnutls_pubkey_get_key_id(key, 0, &bytes, &count) == GNUTLS_E_SUCCESS else { return nil }
    return Array(bytes[..<count])
  }

  private static func withDatum(_ bytes: [UInt8], _ body: (inout gnutls_datum_t) -> Int32) -> Int32 {
    // The library takes a mutable pointer but does not write.
    var bytes = bytes
    return bytes.withUnsafeMutableBufferPointer { buffer in
      var datum = gnutls_datum_t(data: buffer.baseAddress, size: UInt32(clamping: buffer.count))
      return body(&datum)
    }
  }

  private static func free(_ chain: UnsafeMutablePointer<gnutls_pcert_st>, _ count: UInt32) {
    for index in 0..<Int(count) { gnutls_pcert_deinit(chain + index) }
    chain.deallocate()
  }

  private static func problem(_ text: String, _ code: Int32) -> TLSCertificate.Problem {
    TLSCertificate.Problem(
      description: "\(text): \(gnutls_strerror(code).map { String(cString: $0) } ?? "error \(code)")")
  }
}
