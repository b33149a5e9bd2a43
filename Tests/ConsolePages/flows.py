"""Every flow of the console against a running installation, as a person clicks it.

usage: flows.py CONSOLE GATEWAY OPERATOR_TOKEN BACKUP_FOLDER VERDICT PICTURE

VERDICT is the first line of `aquifer status`, which Home says, too.
"""

import contextlib
import pathlib
import sys

import flows_data
import flows_operations
import flows_people
import flows_schema
import flows_sync
import flows_untouched
import flows_zone_files
from accessibility import problems
from population import OTHER_CONTAINER, PASSWORD, Installation, populate
from visitor import Steps, equal, expect, visitor


CONSOLE, GATEWAY, TOKEN, BACKUP, VERDICT, PICTURE = sys.argv[1:7]


class Flows:
    """What all flows share: the steps, the page, the people."""

    def __init__(self, page, installation, ada, grace):
        self.steps = Steps("console")
        self.page = page
        self.installation = installation
        self.ada = ada
        self.grace = grace
        self.backup = BACKUP
        self.other_container = OTHER_CONTAINER

    @contextlib.contextmanager
    def step(self, sentence):
        """A flow, after which the page is as accessible as before, and nothing that was stored has run."""
        with self.steps.step(sentence):
            yield self.page
            expect(self.page.is_whole(), self.page.complaints())
            equal(problems(self.page), [], "the page")

    def take_picture(self):
        self.page.run("document.querySelectorAll('.note').forEach(each => each.remove())")
        pathlib.Path(PICTURE).write_bytes(self.page.chromium.screenshot(1280, 900, scale=0.85))


def sign_in(flows):
    page = flows.page
    with flows.step(
        "an operator signs in with the token, and Home says of the installation what `aquifer status` says"
    ):
        page.sign_in(TOKEN)
        # The figures of a finding, such as the space that is left, may differ a moment later.
        verdict = VERDICT.partition(". ")[0] if VERDICT.startswith("All is well") else "Not well: "
        page.sees(verdict, "Requests", "Sync lag", "Shards", "worker-2")
        page.sees("live")


def sign_out(flows):
    page = flows.page
    with flows.step("a developer signs in by name, and sees their container only"):
        page.sign_out()
        page.sign_in_by_name("grace", PASSWORD)
        page.sees("Your containers", "Photos")
        expect("Operations" not in page.text(), "a developer sees Operations")
        page.open("#/data")
        page.sees("Private databases", "ada")
        page.sign_out()


def main():
    installation = Installation(GATEWAY, TOKEN)
    ada, grace = populate(installation)
    with visitor(CONSOLE) as page:
        flows = Flows(page, installation, ada, grace)
        sign_in(flows)
        flows_data.play(flows)
        flows_untouched.play(flows)
        flows_zone_files.play(flows)
        flows_sync.play(flows)
        flows_schema.play(flows)
        flows_people.play(flows)
        flows_operations.play(flows)
        sign_out(flows)
        flows.steps.done()


main()
