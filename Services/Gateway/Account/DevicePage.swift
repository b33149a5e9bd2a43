// The HTML of the page on which people sign in a device.

import HTTPServer
import Records
import ServiceBus
import WebServices

enum DevicePage {
  static let path = "\(AccountPage.path)/device"

  static func address(_ code: UserCode) -> String { "\(path)?code=\(code.shown)" }

  /// Asks for the code.
  static func ask(_ problem: SignInPage.Problem? = nil) -> HTTPResponse {
    page(
      """
      <h1>Sign in a device</h1>
      <p class="soft">Type the code that the device shows.</p>
      \(Page.alert(problem?.sentence))
      <form method="get" action="\(path)">
      <label for="code">Code</label>
      <input id="code" name="code" type="text" maxlength="20" autocomplete="off" autocapitalize="characters" \
      autocorrect="off" spellcheck="false" placeholder="WDJB-MJHT" required autofocus>
      <p class="actions"><button class="primary" type="submit">Go on</button></p>
      </form>
      """, problem)
  }

  /// Names the device and its place, and asks whether it may sign in as the person.
  static func confirm(
    _ device: LookUpDeviceSignIn.Device, _ code: UserCode, app: PageApp, userName: String, now: Int64
  ) -> HTTPResponse {
    let name = Page.escaped(device.name ?? "An unnamed device")
    let environment = device.environment == .development ? " (development)" : ""
    return page(
      """
      \(Page.badge(app.name))
      <h1>Sign in this device?</h1>
      <p><strong id="device">\(name)</strong> at <strong>\(Page.escaped(device.address))</strong> asked \
      \(Units.age(device.created, now: now)) to be signed in to <strong>\(Page.escaped(app.name))</strong>\
      \(environment) as <strong>\(Page.escaped(userName))</strong>.</p>
      <p class="soft">Allow it only if a device in front of you shows the code <strong>\(code.shown)</strong>.</p>
      <form method="post" action="\(path)"><input type="hidden" name="code" value="\(code.letters)">
      <p class="actions"><button id="allow" class="primary" name="act" value="allow" type="submit">Allow</button>\
      <button name="act" value="refuse" type="submit">Turn it away</button></p>
      </form>
      """)
  }

  static func done(isAllowed: Bool) -> HTTPResponse {
    let sentence =
      isAllowed
      ? "The device is signed in. You can close this page." : "The device was turned away. You can close this page."
    return page("<h1>Sign in a device</h1>\n<p id=\"message\" role=\"status\">\(sentence)</p>")
  }

  private static func page(_ content: String, _ problem: SignInPage.Problem? = nil) -> HTTPResponse {
    Page(
      title: "Sign in a device", status: problem?.status ?? 200, retryAfter: problem?.retryAfter, content: content
    ).response
  }
}
