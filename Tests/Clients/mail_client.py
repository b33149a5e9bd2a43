"""Invites people by mail, and plays their mail server, over TLS and with a password."""

import contextlib
import email.policy
import os
import socket
import ssl
import subprocess
from email.parser import BytesParser

import requests
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, LoginPassword
from steps import Steps, Surroundings, equal, expect
from webdriver import until

WORLD = Surroundings.read()
STEPS = Steps("mail")
CERTIFICATES = os.environ["MAIL_CERTIFICATES"]
LINKS = "https://photos.example.org"
USER = LoginPassword(b"photos", b"a password of the server")


class Mailbox:
    """Takes mails of the user alone, refuses some receivers for good, and keeps what it got."""

    def __init__(self):
        self.mails, self.refused = [], {"gone@example.org"}

    def judge(self, server, session, envelope, mechanism, data):
        return AuthResult(success=data == USER and server.transport.get_extra_info("ssl_object") is not None)

    async def handle_RCPT(self, server, session, envelope, address, options):
        if address in self.refused:
            return "550 No such mailbox"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server, session, envelope):
        mail = BytesParser(policy=email.policy.default).parsebytes(envelope.content)
        self.mails.append((envelope.mail_from, envelope.rcpt_tos, mail))
        return "250 OK"

    def to(self, address):
        return [mail for _, receivers, mail in self.mails if receivers == [address]]


class ServerWithTLS(Controller):
    """TLS from the first byte, as at port 465."""

    mailbox = None

    def factory(self):
        return SMTP(self.handler, authenticator=self.mailbox.judge, auth_required=True, auth_require_tls=False)


class ServerWithSTARTTLS(Controller):
    """Plain text first, as at port 587."""

    mailbox, context = None, None

    def factory(self):
        return SMTP(
            self.handler, tls_context=self.context, require_starttls=True, authenticator=self.mailbox.judge, auth_required=True
        )


class ServerOfThisMachine(ServerWithSTARTTLS):
    """Has a certificate that nobody signed and that names no address, as Debian's mail servers have it."""


def own_certificate():
    chain, key = f"{CERTIFICATES}/own.pem", f"{CERTIFICATES}/own-key.pem"
    made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    subprocess.run([*made, "-subj", "/CN=mail", "-keyout", key, "-out", chain], check=True, capture_output=True)
    return chain, key


def free_port():
    with contextlib.closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def operator(method, path, body=None, status=200):
    answer = requests.request(
        method, f"{WORLD.gateway}/admin/1/{path}", json=body, headers={"Authorization": f"Bearer {WORLD.operator}"}, timeout=30
    )
    equal(answer.status_code, status, answer.text)
    return answer.json()


def user(path, body):
    answer = requests.post(
        WORLD.database(path), json=body, params={"ckAPIToken": WORLD.api_token, "ckWebAuthToken": WORLD.alice}, timeout=30
    )
    equal(answer.status_code, 200, answer.text)
    return answer.json()


def invite(zone, title, *addresses):
    """Shares a new zone of Alice's, and gives the short GUID."""
    user("private/zones/modify", {"operations": [{"operationType": "create", "zone": {"zoneID": {"zoneName": zone}}}]})
    people = [
        {"userIdentity": {"lookupInfo": {"emailAddress": address}}, "type": "USER", "permission": "READ_ONLY"}
        for address in addresses
    ]
    share = {
        "recordType": "cloudkit.share",
        "recordName": "cloudkit.zoneshare",
        "publicPermission": "NONE",
        "participants": people,
        "fields": {"cloudkit.title": {"value": title}},
    }
    made = user(
        "private/records/modify",
        {"zoneID": {"zoneName": zone}, "operations": [{"operationType": "create", "record": share}]},
    )["records"][0]
    expect("shortGUID" in made, str(made))
    return made["shortGUID"]


def server(url):
    settings = {"server": url, "from": "photos@example.org", "fromName": "Photos & more", "linkURL": LINKS}
    operator("PUT", "mail", settings | {"user": USER.login.decode(), "password": USER.password.decode()})


def outcomes():
    return {mail["email"]: mail["outcome"] for mail in operator("GET", "mail/sent")["mails"]}


mailbox = Mailbox()
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(f"{CERTIFICATES}/chain.pem", f"{CERTIFICATES}/key.pem")
ServerWithTLS.mailbox = ServerWithSTARTTLS.mailbox = mailbox
ServerWithSTARTTLS.context = context
secure = ServerWithTLS(mailbox, hostname="127.0.0.1", port=free_port(), ssl_context=context)
starting = ServerWithSTARTTLS(mailbox, hostname="127.0.0.1", port=free_port(), ready_timeout=10)
ServerOfThisMachine.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
ServerOfThisMachine.context.load_cert_chain(*own_certificate())
local = ServerOfThisMachine(mailbox, hostname="127.0.0.1", port=free_port(), ready_timeout=10)
secure.start()
starting.start()
local.start()
try:
    with STEPS.step("without a server nobody gets mail"):
        operator("GET", "mail", status=404)
        operator("GET", "mail/template", status=404)
        equal(operator("GET", "mail/sent")["mails"], [])

    with STEPS.step("a person without an account gets one mail with the share's link, over TLS"):
        server(f"smtps://127.0.0.1:{secure.port}")
        operator("POST", "users", {"name": "known", "email": "known@example.org"})
        title = "Gräte & <b>日本</b>"
        guid = invite("Trips", title, "ida@example.org", "known@example.org")
        until(lambda: mailbox.to("ida@example.org"), "the mail is there")
        mail = mailbox.to("ida@example.org")[0]
        equal(mail["From"].addresses[0].display_name, "Photos & more")
        equal(mail["From"].addresses[0].addr_spec, "photos@example.org")
        equal(mail["To"].addresses[0].addr_spec, "ida@example.org")
        expect(title in mail["Subject"], mail["Subject"])
        (content,) = mail.iter_parts()
        equal(content.get_content_type(), "multipart/alternative")
        text, html = (part.get_content() for part in content.iter_parts())
        for form in (text, html):
            expect(f"{LINKS}/share/{guid}" in form, form)
        expect(title in text and "Gräte &amp; &lt;b&gt;日本&lt;/b&gt;" in html, html)
        equal(requests.get(f"{WORLD.gateway}/share/{guid}", timeout=30).status_code, 200)
        expect(mail["Date"].datetime is not None and mail["Message-ID"], str(mail.items()))

    with STEPS.step("the receiver asks for no more by the link in the mail's head, and gets none"):
        link = mail["List-Unsubscribe"].strip("<>")
        expect(link.startswith(f"{LINKS}/mail/stop/") and link in text, link)
        page = WORLD.gateway + link.removeprefix(LINKS)
        expect("ida@example.org" in requests.get(page, timeout=30).text, "the page names the address")
        equal(requests.post(page, data={"List-Unsubscribe": "One-Click"}, timeout=30).status_code, 200)
        equal(requests.post(page[:-1], timeout=30).status_code, 400)
        invite("More", "More", "ida@example.org", "gone@example.org", "eve@example.org")
        until(lambda: outcomes().get("eve@example.org") == "sent", "Eve's mail is sent")
        until(lambda: outcomes().get("gone@example.org") == "bounced", "the refused mail is counted")

    with STEPS.step("a server that begins TLS by STARTTLS gets no password and no mail before"):
        server(f"smtp://localhost:{starting.port}")
        invite("Later", "Later", "bob@example.org", "early@example.org")
        until(lambda: mailbox.to("bob@example.org") and mailbox.to("early@example.org"), "the mails are there")

    with STEPS.step("a server on this machine needs no certificate that anybody signed"):
        server(f"smtp://127.0.0.1:{local.port}")
        invite("Here", "Here", "zoe@example.org")
        until(lambda: mailbox.to("zoe@example.org"), "the mail is there")

    with STEPS.step("everybody got as many mails as shares invited them, and nobody else any"):
        counts = {}
        for sender, receivers, _ in mailbox.mails:
            equal(sender, "photos@example.org")
            counts[receivers[0]] = counts.get(receivers[0], 0) + len(receivers)
        equal(counts, {f"{name}@example.org": 1 for name in ("ida", "eve", "bob", "early", "zoe")})
finally:
    secure.stop()
    starting.stop()
    local.stop()
STEPS.done()
