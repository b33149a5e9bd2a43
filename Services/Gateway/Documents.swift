// The gateway's own documents: a welcome at `/`, and the OpenAPI description of its calls.

import COpenAPI
import HTTPServer
import ServiceKit

extension Gateway {
  /// The text of this release's Services/openapi.json.
  static let openAPI = Array(
    UnsafeBufferPointer(start: aquifer_openapi_start(), count: Int(aquifer_openapi_byte_count)))

  static let openAPIResponse = HTTPResponse(
    status: 200, headers: [ErrorAnswer.jsonHeader, ("Cache-Control", "public, max-age=300")], body: .bytes(openAPI))

  static let welcome = HTTPResponse(
    status: 200, headers: [("Content-Type", "text/plain; charset=utf-8"), ("Cache-Control", "public, max-age=300")],
    body: .bytes(
      Array(
        """
        Aquifer \(Release.version): your own CloudKit, with the mirroring of NSPersistentCloudKitContainer.

        /openapi.json                 every call of both planes, for people and for generators of clients
        /database/1/{container}/…     the record plane: CloudKit Web Services
        /mirror/1/{container}/…       the object plane: stores of managed objects

        The documents are in the repository of this release. Begin with README.md. docs/guide is for authors of clients,
        docs/protocol describes both planes, docs/architecture.md and docs/design explain how the server works.
        docs/operating/OPERATING.md and docs/operating/ERRORS.md are for operators.

        """.utf8)))
}
