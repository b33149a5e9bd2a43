"""People: users from their creation to their end, shares, credentials, roles, and the audit."""

from population import CONTAINER


def play(flows):
    user(flows)
    shares(flows)
    credentials(flows)
    devices(flows)
    mail(flows)


def user(flows):
    page = flows.page
    with flows.step("a user is made, gets a quota, is disabled and deleted"):
        page.click("People", "nav a")
        page.sees("ada", "grace@example.org")
        page.click("New user")
        page.fill("Name", "linus")
        page.fill("Given name", "Linus")
        page.click("Create", "dialog button")
        page.sees("It is shown this once.")
        page.click("Done")
        page.sees("What they hold", "the workers' own", "No device here", "No sessions", "No roles")
        page.click("Give a role")
        page.choose("Role", "operator")
        page.click("Give", "dialog button")
        page.sees("The role is given.", "the whole installation")
        page.click("Take operator from linus")
        page.click("Take it back")
        page.sees("No roles")
        page.click("Sign out everywhere")
        page.click("Sign out", "dialog footer button")
        page.sees("The user is signed out.")
        page.click("Change the quota")
        page.choose("Quota", "a limit")
        for wrong in ("", "1,5", "500 MB", "0", "-1", "Infinity"):
            page.fill("MB for each database", wrong)
            page.click("Save", "dialog button")
            page.sees(f"“{wrong}” is no number of megabytes", "Nothing was changed.")
        page.fill("MB for each database", "250")
        page.click("Save", "dialog button")
        page.sees("The quota is saved.", "250 MB")
        page.click("Disable")
        page.click("Disable", "dialog footer button")
        page.sees("The user is disabled.", "disabled", "Enable")
        page.click("Delete")
        page.fill("Type linus to go on", "linus")
        page.click("Delete the user")
        page.sees("The user is being removed.", "ada")
    with flows.step("a user whose name is taken is refused, and what was typed stays"):
        page.click("New user")
        page.fill("Name", "ada")
        page.fill("Given name", "Another")
        page.click("Create", "dialog button")
        page.sees("The user 'ada' exists already", "Nothing was changed", "Another")
        page.click("Cancel")


def shares(flows):
    page = flows.page
    with flows.step("a share shows its people, and ends"):
        page.open("#/people/shares")
        page.sees("Ferry trip", "reads")
        page.click("Participants of Ferry trip")
        page.sees("owner")
        page.click("Close")
        page.click("Stop sharing Ferry trip")
        page.sees("Everybody else loses access")
        page.click("Stop sharing", "dialog footer button")
        page.sees("The share has ended.", "Nothing is shared")


def credentials(flows):
    page = flows.page
    with flows.step("an API token is made for an origin and revoked"):
        page.open("#/people/tokens")
        page.sees("https://photos.example.org", "No server keys")
        page.click("New token")
        page.fill("Origins", "https://trips.example.org")
        page.click("Create", "dialog button")
        page.sees("It is shown this once.")
        page.click("Done")
        page.sees("https://trips.example.org")
        page.run(
            "const row = [...document.querySelectorAll('tr')].find(each => each.innerText.includes('trips'));"
            "row.querySelector('button').click()"
        )
        page.click("Revoke", "dialog footer button")
        page.sees("It is revoked.")
        page.sees_no("https://trips.example.org")
    with flows.step("a role is given, and the audit says who did what"):
        page.open("#/people/roles")
        page.click("Give a role")
        page.fill("User", "grace")
        page.choose("Role", "developer of the container")
        page.click("Give", "dialog button")
        page.sees("The role is given.", "grace", CONTAINER)
        page.open("#/people/audit")
        page.sees("POST", "roles", "DELETE", "operator")
        page.open("#/people/sign-ins")
        page.sees("console", "signed in", "127.0.0.1")


def devices(flows):
    page = flows.page
    with flows.step("a device that is woken is seen with its pushes, and woken no more"):
        page.open("#/people/registrations")
        page.sees("photos.example.org", "each zone", "Pushes are counted since")
        page.click("Wake server-1 no more")
        page.sees("It hears of changes when its app runs.")
        page.click("End it", "dialog footer button")
        page.sees("The device is woken no more.", "No devices")


def mail(flows):
    page = flows.page
    with flows.step("the mail server is shown, with what waits and how the mails of a day ended"):
        page.open("#/people/mail")
        page.sees("No mail server", "No mails")
        server = {"server": "smtps://127.0.0.1:9", "from": "photos@example.org", "linkURL": "https://photos.example.org"}
        flows.installation.admin("PUT", "mail", server)
        page.open("#/people/users")
        page.open("#/people/mail")
        page.sees("smtps://127.0.0.1:9", "Waiting", "Bounced in a day")
        flows.installation.admin("DELETE", "mail")
