import Records
import Sharing
import Testing

/// The matrix of docs/protocol/mirroring.md#access-matrix again, written as text: a row an action, a column a standing.
/// `-` is denied, `.` is as if there were nothing.
struct AccessMatrixTests {
  private static let columns: [(name: String, standing: ShareStanding)] = [
    ("owner", .owner), ("administrator who may write", .administrator(.readWrite)),
    ("administrator who may read", .administrator(.readOnly)),
    ("readWrite", .participant(.readWrite)), ("readOnly", .participant(.readOnly)), ("none", .participant(.none)),
    ("invited", .invited),
    ("link", .linkHolder), ("stranger", .stranger),
  ]

  private static let rows: [(action: ShareAction, cells: String)] = [
    (.seeMetadata, "y y y y y y y y ."),
    (.readRecords, "y y y y y . . . ."),
    (.writeRecords, "y y - y - . . . ."),
    (.changeParticipants, "y y y - - - . . ."),
    (.changePublicPermission, "y - - - - - . . ."),
    (.deleteShare, "y - - - - - . . ."),
    (.deleteZone, "y - - - - - . . ."),
    (.endOwnParticipation, "- y y y y y y y ."),
  ]

  struct Case: Sendable, CustomTestStringConvertible {
    let action: ShareAction
    let column: String
    let standing: ShareStanding
    let expected: AccessVerdict
    var testDescription: String { "\(action.rawValue): \(column)" }
  }

  static let cases: [Case] = rows.flatMap { row in
    zip(columns, row.cells.split(separator: " ")).map { column, cell in
      Case(
        action: row.action, column: column.name, standing: column.standing,
        expected: cell == "y" ? .allowed : cell == "-" ? .denied : .absent)
    }
  }

  @Test func `every action and every standing has its cell`() {
    #expect(Self.cases.count == ShareAction.allCases.count * 9)
    #expect(Self.rows.map(\.action) == ShareAction.allCases)
  }

  @Test(arguments: cases) func `a cell of the matrix`(_ cell: Case) {
    #expect(AccessMatrix.verdict(cell.action, cell.standing) == cell.expected)
    let missing = RecordError(.zoneNotFound, "gone")
    let error: RecordError?
    do throws(RecordError) {
      try AccessMatrix.require(cell.action, cell.standing, orElse: missing)
      error = nil
    } catch let refusal {
      error = refusal
    }
    switch cell.expected {
    case .allowed: #expect(error == nil)
    case .denied: #expect(error?.ckErrorCode == 10)
    case .absent: #expect(error == missing)
    }
  }

  @Test func `a zone's access is what its active memberships let him do`() {
    func member(
      _ share: String, root: String?, _ permission: SharePermission, role: ParticipantRole = .privateUser,
      until: Int64? = nil
    ) -> ShareMember {
      ShareMember(
        zoneName: "Z", userRecordName: "_bob", shareName: share, rootRecordName: root, role: role,
        permission: permission, since: 7, until: until)
    }
    #expect(!ZoneAccess.none.mayRead && !ZoneAccess.none.mayWriteSomewhere && ZoneAccess.none.since == 0)
    #expect(!ZoneAccess([member("a", root: nil, .readWrite, until: 9)]).mayRead)
    #expect(!ZoneAccess([member("a", root: nil, .none)]).mayRead)
    let whole = ZoneAccess([member("cloudkit.zoneshare", root: nil, .readOnly)])
    #expect(whole.mayRead && whole.roots == nil && !whole.mayWrite(root: nil) && !whole.mayWriteSomewhere)
    #expect(ZoneAccess([member("s", root: nil, .readOnly, role: .administrator)]).mayWrite(root: nil) == false)
    let two = ZoneAccess([
      member("s2", root: "r2", .readWrite), member("s1", root: "r1", .readOnly),
      member("s3", root: "r3", .readWrite, until: 8),
    ])
    #expect(two.roots == ["r1", "r2"] && two.since == 7)
    #expect(["r1", "r2", "r3", "x", nil].map { two.mayWrite(root: $0) } == [false, true, false, false, false])
    #expect(
      two.mayWriteSomewhere && two.member(ofShare: "s1")?.permission == .readOnly && two.member(ofShare: "s3") == nil)
  }
}
