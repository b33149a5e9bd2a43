// Requests by libcurl: the transport where there is no URLSession in the system.

#if canImport(HTTPClient)
  import HTTPClient

  package struct CurlTransport: Transport {
    private let client: HTTPClient

    /// - Parameter certificateAuthorityFile: a PEM file of the authorities to trust instead of the system's.
    package init(certificateAuthorityFile: String? = nil) {
      client = HTTPClient(certificateAuthorityFile: certificateAuthorityFile, acceptsGzip: true)
    }

    package func send(_ request: TransportRequest) async throws(TransportError) -> TransportResponse {
      do throws(HTTPClientError) {
        let response = try await client.send(
          request.method, request.url, headers: request.headers.map { HTTPClient.Header($0.name, $0.value) },
          body: request.body, timeout: request.timeout)
        return TransportResponse(
          status: response.status, headers: response.headers.map { ($0.name, $0.value) }, body: response.body)
      } catch {
        throw TransportError(error)
      }
    }

    package func stream(
      _ request: TransportRequest, silence: Duration
    ) async throws(TransportError) -> TransportStream {
      do throws(HTTPClientError) {
        let stream = try await client.stream(
          request.url, headers: request.headers.map { HTTPClient.Header($0.name, $0.value) },
          timeout: request.timeout, idleTimeout: silence)
        return TransportStream(status: stream.status, location: stream.head["location"], chunks: stream.chunks)
      } catch {
        throw TransportError(error)
      }
    }
  }

  extension TransportError {
    fileprivate init(_ error: HTTPClientError) {
      let kind: Kind =
        switch error.kind {
        case .badURL, .unreachable, .crowded: .unreachable
        case .timedOut: .timedOut
        case .cancelled: .cancelled
        case .lost, .tooLarge: .lost
        }
      self.init(kind, error.reason)
    }
  }
#endif
