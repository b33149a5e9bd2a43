// Background work and saves share a writer's time.

import Testing

@testable import RecordStore

@Suite struct SlicePacingTests {
  private let start = ContinuousClock.now

  private func after(_ milliseconds: Int) -> ContinuousClock.Instant { start.advanced(by: .milliseconds(milliseconds)) }

  @Test func `slices follow one another while nobody saves, and let those go first who came meanwhile`() {
    var pacing = SlicePacing()
    #expect(pacing.patience(at: start) == .zero)
    pacing.note(from: start, to: after(3))
    #expect(pacing.patience(at: after(3)) == .zero)
  }

  @Test func `the first slice comes after the save that made work for it`() {
    var pacing = SlicePacing()
    pacing.noteSave()
    #expect(pacing.patience(at: start) == nil)
  }

  @Test
  func
    `after a save a slice waits until saves have had four times as long as the slice before it, and then for nobody`()
  {
    var pacing = SlicePacing()
    pacing.note(from: start, to: after(3))
    pacing.noteSave()
    #expect(pacing.patience(at: after(4)) == .milliseconds(11))
    #expect(pacing.patience(at: after(15)) == nil)
    #expect(pacing.patience(at: after(100)) == nil)
  }

  @Test func `a slice during which nobody was served ends the pauses`() {
    var pacing = SlicePacing()
    pacing.note(from: start, to: after(3))
    pacing.noteSave()
    pacing.note(from: after(15), to: after(17))
    #expect(pacing.patience(at: after(17)) == .zero)
  }

  @Test func `while saves never end, slices get a fifth of the time`() {
    var pacing = SlicePacing()
    var now = start
    var (inSlices, inSaves) = (Duration.zero, Duration.zero)
    // Various lengths: slices of 1 to 9 ms, saves of 0.2 ms.
    for round in 0..<200 {
      let end = now.advanced(by: .milliseconds(1 + round % 9))
      pacing.note(from: now, to: end)
      inSlices += now.duration(to: end)
      now = end
      repeat {
        now = now.advanced(by: .microseconds(200))
        inSaves += .microseconds(200)
        pacing.noteSave()
      } while pacing.patience(at: now) != nil
    }
    #expect(inSaves >= inSlices * 4)
    #expect(inSaves <= inSlices * 4 + .microseconds(200) * 200)
  }
}
