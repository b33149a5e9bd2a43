// The reasons for showing a sign-in page again or not at all, as its visitors read them.

import ServiceBus

extension SignInPage {
  enum Problem: Error, Hashable {
    case wrong, incomplete, away
    case throttled(seconds: Int)
    /// Problems that end the sign-in: the page shows no form.
    case badLink, foreignForm, foreignCallback, revoked
    /// The provider's answer belongs to no sign-in of this browser; ends the sign-in.
    case foreignAnswer
    case unknownProvider, declined
    /// A provider's answer could not be kept apart for so long an address.
    case longCallback
    case badPasskey
    case refused(SignInByIdentity.Refusal)
    /// The account page did not do what it was asked for.
    case unchanged(UseAccount.Refusal)

    /// The sentence for the visitor. An unknown name and a wrong password get the same one.
    var sentence: String {
      switch self {
      case .wrong: "The name or the password is wrong."
      case .incomplete: "Type your name and your password."
      case .away: "Sign-in does not work at the moment. Try again in a few seconds."
      case .throttled(let seconds): "Too many attempts. Try again in \(Self.text(seconds))."
      case .badLink:
        "This sign-in took too long, or its address is not complete. Go back to the app and sign in from there."
      case .revoked: "This server no longer knows the app."
      case .foreignCallback: "The app asked for a callback to an address that it is not registered with."
      case .badPasskey: "This passkey does not sign you in. Choose another way."
      case .longCallback: "The app's callback address is too long for this way to sign in. Choose another way."
      case .foreignAnswer:
        "This sign-in began in another browser, or took too long. Go back to the app and sign in from there."
      case .unknownProvider: "This server does not offer that way to sign in."
      case .declined: "You were not signed in there. Try again, or choose another way."
      case .refused(.closed): "New people can't sign up here. Ask the person who runs this server for an account."
      case .refused(.uninvited): "Only invited people can sign up here, and nobody has invited your e-mail address."
      case .refused(.addressTaken):
        "Somebody has an account with your e-mail address. Sign in with its name and its password."
      case .refused(.disabled): "This account is closed."
      case .refused(.provider): "This server no longer offers that way to sign in."
      case .refused(.apiToken): "This server no longer knows the app."
      case .refused(.used): "You have signed in with this answer before. Try again."
      case .unchanged(.provider): "This server no longer offers that way to sign in."
      case .unchanged(.taken): "Another account signs in there already, and stays as it is."
      case .unchanged(.tooMany): "Your account has as many ways to sign in as one may have. Remove another one first."
      case .unchanged(.passkey): "The passkey was not added. Try again."
      case .unchanged(.device): "No device waits with this code. Ask the device for a new one."
      case .unchanged(.lastWay): "This is your only way to sign in. Add another one first."
      case .foreignForm: "The form did not come from the sign-in page. Go back to the app and sign in from there."
      }
    }

    var status: Int {
      switch self {
      case .wrong, .badPasskey, .foreignForm, .revoked, .declined, .refused, .unchanged: 403
      case .incomplete, .badLink, .foreignCallback, .foreignAnswer, .longCallback: 400
      case .unknownProvider: 404
      case .away: 503
      case .throttled: 429
      }
    }

    /// Seconds to wait; nil: the visitor may try again at once.
    var retryAfter: Int? { if case .throttled(let seconds) = self { seconds } else { nil } }

    private static func text(_ seconds: Int) -> String {
      let minutes = (seconds + 59) / 60
      return seconds < 100 ? "\(seconds) \(seconds == 1 ? "second" : "seconds")" : "\(minutes) minutes"
    }
  }
}
